"""Makes the reference data beside this file: mesh.gin, run by the real gin-config.

    pip install gin-config==0.5.0 && python tests/language/calls/mesh.py

mesh.config.golden is the printed configuration, mesh.golden the operative one, mesh.json the model with the
arguments that its parts got, and the bindings without which gin-config makes the same model.
"""

import json
import pathlib

import gin

HERE = pathlib.Path(__file__).parent


@gin.configurable(module="mesh.transformer_layers")
def SelfAttention(name, num_heads=16, key_value_size=128):
    return {"layer": "SelfAttention", "num_heads": num_heads, "key_value_size": key_value_size}


@gin.configurable(module="mesh.transformer_layers")
def EncDecAttention(name, num_heads=16):
    return {"layer": "EncDecAttention", "num_heads": num_heads}


@gin.configurable(module="mesh.transformer_layers")
def DenseReluDense(name, hidden_size=4096, dropout_rate=0.0):
    return {"layer": "DenseReluDense", "hidden_size": hidden_size, "dropout_rate": dropout_rate}


@gin.configurable(module="mesh.losses")
def z_loss(step, weight=1e-4):
    return {"weight": weight}


@gin.configurable(module="mesh.transformer")
def make_layer_stack(name, layers=gin.REQUIRED, num_layers=6):
    layers = [layer(name=f"layer_{i}") for i, layer in enumerate(layers)]
    return {"layers": layers, "num_layers": num_layers}


@gin.configurable(module="mesh.transformer")
def Unitransformer(layer_stack, d_model=1024, loss_fn=None):
    return {"layer_stack": layer_stack, "d_model": d_model, "loss_fn": loss_fn}


@gin.configurable(module="mesh.transformer")
def make_bitransformer(vocab_size, shared_embedding=True):
    model = {"shared_embedding": shared_embedding}
    for side in ["encoder", "decoder"]:
        with gin.config_scope(side):
            model[side] = Unitransformer(layer_stack=make_layer_stack(name=side))
    return model


@gin.configurable(module="mesh.utils")
def run(steps):
    return {"steps": steps, "model": make_bitransformer(vocab_size=32128)}


def made():
    """The model; its losses are called after it was made."""
    result = run()
    for side in ["encoder", "decoder"]:
        loss_fn = result["model"][side]["loss_fn"]
        with gin.config_scope("loss"):
            result["model"][side]["loss_fn"] = loss_fn and loss_fn(step=0)
    return result


def without(key, argument):
    gin.clear_config()
    gin.parse_config_file(str(HERE / "mesh.gin"))
    del gin.config._CONFIG[key][argument]
    return made()


def main():
    gin.parse_config_file(str(HERE / "mesh.gin"))
    (HERE / "mesh.config.golden").write_text(gin.config_str())
    model = made()
    (HERE / "mesh.golden").write_text(gin.operative_config_str())
    bindings = [(key, argument) for key, bound in gin.config._CONFIG.items() for argument in bound]
    needed = [("mesh.transformer.make_layer_stack", "layers"), ("mesh.utils.run", "steps"), ("gin.macro", "value")]
    unread = [
        f"{scope}/{name}.{argument}"
        for (scope, name), argument in bindings
        if (name, argument) not in needed and without((scope, name), argument) == model
    ]
    (HERE / "mesh.json").write_text(json.dumps({"run": model, "unread": sorted(unread)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
