//! Models of flaxformer's modules are T5X's networks, and other networks are refused.

use gimlet::gin::{Configurable, Evaluator, Request, load};
use gimlet::models::given_rows::GivenRows;
use gimlet::models::parts::{FeedForwardDropout, Reach, RowsKind, RowsPlace};
use gimlet::models::transformer::{LayerStyle, StackEnd, TransformerSpec};
use gimlet::models::{
    BaseModel, EncoderDecoderModel, PerceptronLossEncoderDecoderModel,
    WaywardPromptEncoderDecoderModel,
};
use gimlet::nn::Initializer;
use gimlet::run::{Library, registry};

/// Loads library files with these bindings; returns the model, or all messages.
fn model(files: &[&str], bindings: &[&str]) -> Result<EncoderDecoderModel, String> {
    of_class(files, bindings)
}

fn of_class<M: BaseModel + Configurable>(files: &[&str], bindings: &[&str]) -> Result<M, String> {
    let registry = registry();
    let files = files.iter().map(|file| file.to_string()).collect();
    let bindings = ["DROPOUT_RATE = 0.0"].into_iter().chain(bindings.iter().copied());
    let bindings = bindings.map(|text| ("flag".to_string(), text.to_string())).collect();
    let request = Request { files, bindings, ..Request::default() };
    let loaded = load(&request, &Library, &registry).map_err(|list| list.render(false))?;
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    let spec = evaluator.evaluate_in::<M>("");
    let list = evaluator.into_diagnostics();
    let diagnostics = gimlet::gin::Diagnostics { sources: loaded.sources.clone(), list };
    let spec = spec.map_err(|_| diagnostics.render(false))?;
    spec.check().map(|()| spec).map_err(|unfit| unfit.to_string())
}

fn network(file: &str) -> TransformerSpec {
    model(&[file], &[]).unwrap_or_else(|message| panic!("{file}: {message}")).transformer()
}

/// Names of a file, in flaxformer's folder and in T5X's.
const MODELS: [(&str, &str); 20] = [
    ("t5_small", "t5_1_0/small"),
    ("t5_base", "t5_1_0/base"),
    ("t5_large", "t5_1_0/large"),
    ("t5_3B", "t5_1_0/3B"),
    ("t5_11B", "t5_1_0/11B"),
    ("t5_1_1_small", "t5_1_1/small"),
    ("t5_1_1_base", "t5_1_1/base"),
    ("t5_1_1_large", "t5_1_1/large"),
    ("t5_1_1_xl", "t5_1_1/xl"),
    ("t5_1_1_xxl", "t5_1_1/xxl"),
    ("mt5_small", "mt5/small"),
    ("mt5_base", "mt5/base"),
    ("mt5_large", "mt5/large"),
    ("mt5_xl", "mt5/xl"),
    ("mt5_xxl", "mt5/xxl"),
    ("byt5_small", "byt5/small"),
    ("byt5_base", "byt5/base"),
    ("byt5_large", "byt5/large"),
    ("byt5_xl", "byt5/xl"),
    ("byt5_xxl", "byt5/xxl"),
];

#[test]
fn every_model_is_that_of_t5x_but_for_the_dropout_of_the_encoding() {
    for (ours, t5x) in MODELS {
        let found = network(&format!("flaxformer/t5x/configs/t5/models/{ours}.gin"));
        let mut expected = network(&format!("t5x/examples/t5/{t5x}.gin"));
        let encoder = expected.encoder.as_mut().expect("a T5 has an encoder");
        let own = StackEnd::NormAndDropout { is_shared: false };
        assert_eq!(
            std::mem::replace(&mut encoder.end, StackEnd::NormAndDropout { is_shared: true }),
            own
        );
        assert_eq!(found, expected, "{ours}");
    }
}

const SMALL: &str = "flaxformer/t5x/configs/t5/models/t5_1_1_small.gin";

#[test]
fn values_of_other_networks_are_refused_with_place_and_remedy() {
    let check = |bindings: &[&str], expected: &[&str]| {
        let message = model(&[SMALL], bindings).expect_err("it is refused");
        for part in expected {
            assert!(message.contains(part), "`{part}` is not in:\n{message}");
        }
    };
    check(
        &["dense.MlpBlock.use_bias = True"],
        &["expected False for `MlpBlock.use_bias`, found True", "flag", "no bias, as T5's"],
    );
    check(
        &["t5_architecture.Encoder.scan_layers = True"],
        &["expected False for `Encoder.scan_layers`", "scalable_t5"],
    );
    check(
        &[
            "t5_architecture.DecoderLayer.self_attention = @dense_attention.MultiQueryDotProductAttention()",
        ],
        &["@MultiHeadDotProductAttention()", "MultiQueryDotProductAttention"],
    );
    check(
        &["dense.MlpBlock.dtype = 'float32'"],
        &[
            "dense.MlpBlock.dtype is 'float32', and embedding.Embed.dtype is 'bfloat16'",
            "one format",
        ],
    );
    check(
        &["dense.MlpBlock.intermediate_dropout_rate = 0.1"],
        &["dense.MlpBlock.intermediate_dropout_rate is 0.1", "a network has one dropout"],
    );
    check(
        &["relative_position_biases.RelativePositionBiases.num_heads = 5"],
        &["num_heads is 6, and relative_position_biases.RelativePositionBiases.num_heads is 5"],
    );
    check(
        &["t5_architecture.Decoder.shared_relative_position_bias_factory = None"],
        &["t5_architecture.Decoder and its layers have no bias of relative position"],
    );
    check(
        &["t5_architecture.EncoderDecoder.shared_token_embedder_factory = None"],
        &["shared_token_embedder_factory is None, expected @embedding.Embed"],
    );
    check(
        &["dense.DenseGeneral.features = 5", "output_logits/dense.DenseGeneral.features = 5"],
        &["dense.DenseGeneral.features is 5, and embedding.Embed.num_embeddings is 32128"],
    );
    check(
        &["DROPOUT_RATE = 0.1", "dropout_factory/linen.Dropout.broadcast_dims = (0,)"],
        &["linen.Dropout.broadcast_dims of t5_architecture.Encoder is [0], expected (-2,)"],
    );
    check(&["EMBED_DIM = 0"], &["embedding.Embed.features is 0 or empty, expected at least 1"]);
}

#[test]
fn parameters_of_modules_describe_the_network() {
    let changed = |binding: &str| {
        let found = model(&[SMALL], &[binding]);
        found.unwrap_or_else(|message| panic!("{binding}: {message}")).transformer()
    };
    assert_eq!(
        changed("dense_attention.MultiHeadDotProductAttention.head_dim = None").last.dims.head_dim,
        85
    );
    assert!(
        changed("dense_attention.MultiHeadDotProductAttention.rescale_logits = True")
            .last
            .dims
            .scale_attn_logits
    );
    let remade = changed("t5_architecture.Encoder.layer_remat = 'minimal'").encoder;
    assert_eq!(remade.expect("an encoder").dims.remat_policy, gimlet::nn::RematPolicy::Minimal);
    let split = changed("dense_attention.MultiHeadDotProductAttention.split_head_kernel = True")
        .param_tree();
    let query = split.iter().find(|param| param.name == "encoder/layers_0/attention/query/kernel");
    assert_eq!(query.expect("the kernel").shape, [512, 6, 64]);
    let file = "flaxformer/t5x/configs/t5/architectures/flash_attention.gin";
    let flash = model(&[SMALL, file], &[]).expect("it loads");
    assert_eq!(flash.transformer(), network(SMALL));
}

const PROMPTED: &str = "prompt_tuning/configs/models/t5_1_1_small_prompt.gin";

#[test]
fn a_network_with_a_prompt_is_t5_s_with_rows() {
    let found = network(PROMPTED);
    let rows = found.learned_rows.as_ref().expect("it has a prompt");
    assert_eq!((rows.kind, rows.count, rows.place), (RowsKind::Prompt, 100, RowsPlace::Before));
    assert_eq!((rows.initializer, &rows.given[..]), (Initializer::Uniform { scale: 0.5 }, &[][..]));
    let param = rows.param();
    assert_eq!(
        (&param.name[..], &param.shape[..]),
        ("encoder/prompt/prompt/prompt", &[100, 512][..])
    );
    assert_eq!(param.axes, ["prompt", "prompt_embed"]);
    assert_eq!(TransformerSpec { learned_rows: None, ..found }, network(SMALL));
    let labels = ["CLASS_LABELS = ['a', 'b']", "INITIAL_CHECKPOINT_PATH = 'x'"];
    let file = "prompt_tuning/configs/prompts/from_class_labels.gin";
    let spec = model(&[PROMPTED, file], &labels).expect("it loads").transformer();
    let given = spec.learned_rows.expect("it has a prompt").given;
    assert!(
        matches!(&given[..], [GivenRows::Sample { population_size: Some(5000), .. }, GivenRows::Texts { texts, .. }]
            if texts.len() == 2),
        "{given:?}"
    );
}

#[test]
fn prompts_that_contradict_themselves_are_refused_with_the_remedy() {
    let check = |bindings: &[&str], expected: &[&str]| {
        let message = model(&[PROMPTED], bindings).expect_err("it is refused");
        for part in expected {
            assert!(message.contains(part), "`{part}` is not in:\n{message}");
        }
    };
    check(
        &["prompt_masks.add_fake_prompt.prompt_length = 7"],
        &[
            "masks.add_fake_prompt.prompt_length is 7, and prompts.Prompt.length is 100",
            "PROMPT_LENGTH",
        ],
    );
    check(&["PROMPT_LENGTH = 0"], &["prompts.Prompt.length is 0, expected at least 1"]);
    check(
        &["prompt_tuning.prompts.Prompt.dtype = 'float16'"],
        &["prompts.Prompt.dtype is 'float16', and embedding.Embed.dtype is 'bfloat16'"],
    );
    check(
        &["prompt_tuning.prompts.Prompt.axis_names = ('prompt', 'embed')"],
        &["expected ('prompt', 'prompt_embed') for `Prompt.axis_names`", "files hold it"],
    );
    check(
        &[
            "train_prompts.Prompt.combine = @train_prompts.suffix_prompt",
            "train_prompts.suffix_prompt.decoder_only = True",
        ],
        &["expected False for `suffix_prompt.decoder_only`", "tokens of an encoder"],
    );
    check(
        &["prompt_masks.add_fake_prompt.multitask = True"],
        &[
            "masks.add_fake_prompt.multitask is True",
            "prompt_factory of several tasks is False",
            "@extended.masks.prompt_encoder_attention_mask",
        ],
    );
    check(
        &[
            "from prompt_tuning.extended.train import per_layer",
            "train_prompts.Prompt.combine = @per_layer.add_prompt",
        ],
        &["combine is @per_layer.add_prompt", "@train.prompts.prefix_prompt"],
    );
    check(
        &[
            "from prompt_tuning.extended import masks as extended_masks",
            "prompt_layers.PromptEncoderDecoder.encoder_mask_factory = @extended_masks.prompt_encoder_attention_mask",
            "extended_masks.prompt_encoder_attention_mask.prompt_length = 100",
            "train_prompts.Prompt.combine = @train_prompts.suffix_prompt",
        ],
        &["combine is @train.prompts.suffix_prompt", "the first positions"],
    );
    check(
        &["prompt_layers.PromptEncoder.scan_layers = True"],
        &["expected False for `PromptEncoder.scan_layers`"],
    );
}

/// The names, shapes and axes of parameters of prompts.
fn prompts(spec: &TransformerSpec) -> Vec<(String, Vec<usize>, Vec<&'static str>)> {
    let tree = spec.param_tree().into_iter();
    let prompts = tree.filter(|param| param.name.contains("prompt"));
    prompts.map(|param| (param.name, param.shape, param.axes)).collect()
}

const EXTENDED: &str = "prompt_tuning/configs/extended/models";

#[test]
fn prompts_of_layers_are_one_in_each_and_draw_rows_of_their_own() {
    let file = format!("{EXTENDED}/t5_1_1_per_layer_prompt.gin");
    let files = [&file, "prompt_tuning/configs/models/sizes/small.gin"];
    let found = model(&files, &["NUM_ENCODER_LAYERS = 2"]).expect("it loads").transformer();
    let names = ["layers_0/prompt/prompt/prompt", "layers_1/prompt/prompt/prompt"];
    let names = names.into_iter().chain(["prompt/prompt/prompt"]);
    let axes = vec!["prompt", "prompt_embed"];
    let expected = names.map(|name| (format!("encoder/{name}"), vec![10, 512], axes.clone()));
    assert_eq!(prompts(&found), expected.collect::<Vec<_>>());
    let rows = found.encoder.as_ref().and_then(|encoder| encoder.layer_rows.clone());
    assert!(rows.expect("layers have rows").replaces);
    let check = |bindings: &[&str], expected: &str| {
        let message = model(&files, bindings).expect_err("it is refused");
        assert!(message.contains(expected), "`{expected}` is not in:\n{message}");
    };
    check(
        &["per_layer/prompt_tuning.prompts.Prompt.length = 11"],
        "is 11, and the prompt of the encoder has 10 rows",
    );
    check(
        &["per_layer/train_prompts.Prompt.combine = @train_prompts.prefix_prompt"],
        "is @train.prompts.prefix_prompt, expected @per_layer.replace_prompt or @per_layer.add_prompt",
    );
    check(
        &["train_prompts.Prompt.combine = @train_prompts.suffix_prompt"],
        "is @train.prompts.suffix_prompt, and prompts of layers take the first positions",
    );
    check(
        &[
            "ARCHITECTURE = @t5_architecture.EncoderDecoder()",
            "t5_architecture.Encoder.layer_factory = @per_layer.PromptEncoderLayer",
        ],
        "and the encoder has no prompt",
    );
}

#[test]
fn prompts_of_several_tasks_are_shared_rows_and_a_table() {
    let files = [&format!("{EXTENDED}/multi_task_t5_1_1_small_prompt.gin")[..]];
    let found = model(&files, &["PROMPT_LENGTH = 5"]).expect("it loads");
    let name = |name: &str| format!("encoder/prompt/prompt/{name}");
    let expected = [
        (name("shared_prompt"), vec![5, 512], vec!["prompt", "embed"]),
        (name("task_prompts/embedding"), vec![8, 5 * 512], vec!["tasks", "prompt+embed"]),
    ];
    assert_eq!(prompts(&found.transformer()), expected);
    assert_eq!(found.known_ids().first_of_inputs, Some(32092..32100));
    let rows = found.transformer().learned_rows.expect("it has a prompt");
    assert_eq!((rows.total(), rows.growth(), rows.is_causal), (5, 4, true));
    let check = |bindings: &[&str], expected: &str| {
        let message = model(&files, bindings).expect_err("it is refused");
        assert!(message.contains(expected), "`{expected}` is not in:\n{message}");
    };
    check(&["NUM_TASKS = 0"], "AddMultiTaskPrompt.num_tasks is 0, expected at least 1");
    for size in ["7", "32129"] {
        check(
            &[&format!("multitask_prompts.sentinel_to_task.vocab_size = {size}")],
            &format!(
                "vocab_size is {size}, expected the number of the vocabulary's ids: at least 8"
            ),
        );
    }
    check(&["masks.add_fake_prompt.multitask = False"], "masks.add_fake_prompt.multitask is False");
    check(
        &[
            "from prompt_tuning.train import prompts as plain",
            "train_prompts.MultiTaskPrompt.combine = @plain.suffix_prompt",
        ],
        "@prefix_prompt",
    );
    check(
        &["prompt_masks.prompt_encoder_attention_mask.allowable_attention = ['input->input']"],
        "expected None for `prompt_encoder_attention_mask.allowable_attention`",
    );
    check(
        &[
            "train_prompts.MultiTaskPrompt.prompt = @multitask_prompts.ConcatFeaturesMultiTaskPrompt()",
            "multitask_prompts.ConcatFeaturesMultiTaskPrompt.length = 100",
            "multitask_prompts.ConcatFeaturesMultiTaskPrompt.num_tasks = 8",
            "multitask_prompts.ConcatFeaturesMultiTaskPrompt.shared_features = 500",
            "multitask_prompts.ConcatFeaturesMultiTaskPrompt.task_features = 500",
        ],
        "shared_features + task_features is 1000, expected 512, the width of the model",
    );
}

#[test]
fn a_prompt_is_kept_near_a_text_of_its_length() {
    let file = format!("{EXTENDED}/wayward_t5_1_1_base_prompt.gin");
    let bytes = [
        "VOCABULARY = @seqio.ByteVocabulary()",
        "INITIAL_CHECKPOINT_PATH = 'x'",
        "TASK_STRING = 'ab'",
    ];
    let wayward = |bindings: &[&str]| {
        let bindings = [&bytes, bindings].concat();
        of_class::<WaywardPromptEncoderDecoderModel>(&[&file], &bindings)
    };
    let found = wayward(&[]).expect("it loads");
    let anchor = found.anchor().expect("it has one");
    assert_eq!((anchor.shape, anchor.weight, anchor.rows.len()), ([2, 768], 0.01, 1));
    let check = |binding: &str, expected: &str| {
        let message = wayward(&[binding]).expect_err("it is refused");
        assert!(message.contains(expected), "`{expected}` is not in:\n{message}");
    };
    check(
        "prompt_init/wayward.execute_initializer.shape = (3, 768)",
        "shape is (3, 768), and encoder/prompt/prompt/prompt has the shape [2, 768]",
    );
    check(
        "wayward.WaywardPromptEncoderDecoderModel.prompt_path = 'prompt'",
        "prompt_path is 'prompt', and the network has no such parameter",
    );
    check(
        "prompt_init/prompts.from_embedded_string.initializer = @linen.initializers.uniform()",
        "execute_initializer.init draws rows",
    );
    check("VERBALIZERS = ['a']", "expected None for `encode_string.format_values`");
    let ids = "VOCABULARY = @seqio.PassThroughVocabulary()";
    let message =
        wayward(&[ids, "seqio.PassThroughVocabulary.size = 9"]).expect_err("it is refused");
    assert!(message.contains("has no pieces of texts"), "{message}");
}

#[test]
fn models_that_rank_answers_read_all_of_them() {
    let folder = "prompt_tuning/extended/perceptron/configs/models";
    let perceptron = format!("{folder}/perceptron_t5_1_1_prompt.gin");
    let files = [&perceptron[..], "prompt_tuning/configs/models/sizes/small.gin"];
    let bytes = "VOCABULARY = @seqio.ByteVocabulary()";
    let found = of_class::<PerceptronLossEncoderDecoderModel>(&files, &[bytes]).expect("it loads");
    let lengths = [("inputs", 8), ("targets", 4), ("is_correct", 3)];
    let lengths = lengths.map(|(name, length)| (name.to_string(), length)).into();
    let shape = found.step_shape(2, &lengths).expect("all lengths are there");
    assert_eq!((shape.rows, &shape.lengths[..]), (6, &[8, 4][..]));
    let other = "models.PerceptronLossEncoderDecoderModel.feature_converter_cls = @seqio.EncDecFeatureConverter";
    let message = of_class::<PerceptronLossEncoderDecoderModel>(&files, &[bytes, other]);
    let message = message.expect_err("it is refused");
    assert!(message.contains("feature_converter_cls is given, expected None"), "{message}");
}

const LONG: &str = "flaxformer/t5x/configs/longt5/models/longt5_1_1_transient_global_base.gin";

#[test]
fn longt5_is_t5_1_1_with_another_reach() {
    let models = "flaxformer/t5x/configs/longt5/models/longt5_1_1";
    for size in ["small", "base", "large", "xl", "xxl"] {
        let mut expected = network(&format!("flaxformer/t5x/configs/t5/models/t5_1_1_{size}.gin"));
        expected.last.dims.style = LayerStyle::T5;
        let reaches = [
            ("", Reach::Local { radius: 127 }),
            ("_transient_global", Reach::TransientGlobal { radius: 127, tokens_per_block: 16 }),
        ];
        for (kind, reach) in reaches {
            expected.encoder.as_mut().expect("a T5 has an encoder").reach = reach;
            assert_eq!(network(&format!("{models}{kind}_{size}.gin")), expected, "{kind} {size}");
        }
    }
    let spec = network(LONG);
    // Those of T5 1.1 base, a norm in each layer, and a second table of relative positions.
    assert_eq!(spec.num_params(), 247_577_856 + 12 * 768 + 12 * 32);
    let tree = spec.param_tree();
    let has = |name: &str| tree.iter().any(|param| param.name == name);
    assert!(has("encoder/side_relpos_bias/rel_embedding"));
    assert!(has("encoder/layers_11/attention/T5LayerNorm_0/scale"));
    let dropped = model(&[LONG], &["DROPOUT_RATE = 0.1"]).expect("it loads").transformer();
    let drops = dropped.last.dims.style.feed_forward_dropout;
    assert_eq!((drops, dropped.dropout_rate), (FeedForwardDropout::BetweenAndAfter, 0.1));
}

#[test]
fn other_longt5s_are_refused() {
    let attention = "long_attention.EtcTransientGlobalSelfAttention";
    for (binding, expected) in [
        (format!("{attention}.causal = True"), "attend to both sides"),
        (format!("{attention}.tokens_per_block = 1"), "tokens_per_block is 1, expected 2 or more"),
        (
            "longt5_architecture.LongEncoder.shared_side_relpos_bias_factory = None".to_string(),
            "shared_side_relpos_bias_factory is None, expected",
        ),
        (
            "dense.MlpBlock.final_dropout_rate = 0.3".to_string(),
            "final_dropout_rate is 0.3, expected 0 or intermediate_dropout_rate, 0",
        ),
    ] {
        let message = model(&[LONG], &[&binding]).expect_err("it is refused");
        assert!(message.contains(expected), "`{expected}` is not in:\n{message}");
    }
}
