"""A trained model that answers from Python."""

import http.client
import json
import secrets
import tempfile
import threading
import typing

from gimlet.process import GimletError, Process, flags

_SERVING = "serving at http://"
# Limits that protect a server from strangers; this one has a single client.
_LIMITS = {"queue": 1 << 30, "timeout_secs": 7 * 86400, "max_body_bytes": 1 << 40}


class Answer(typing.NamedTuple):
    """An answer of a model."""

    text: str
    #: The log-likelihood that the model gives to the answer's tokens.
    score: float


class _Server(Process):
    """`gimlet serve` at a port that is free, which ends with this Python."""

    def __init__(self, *words):
        self.address = None
        self._told = threading.Event()
        super().__init__(*words)
        threading.Thread(target=self._tell_end, daemon=True).start()
        try:
            self._told.wait()
            if self.address is None:
                self.check()
        except BaseException:
            self.close()
            raise

    def hears(self, line):
        if line.startswith(_SERVING):
            self.address = line.removeprefix(_SERVING).split(";")[0]
            self._told.set()
            return True
        return False

    def _tell_end(self):
        self._listener.join()
        self._told.set()


class Model:
    """A model that `gimlet serve` has loaded: with `with`, or until `close()` or the end of this Python."""

    def __init__(self, checkpoint, *, batch_size=None, gin_file=None, gin_bindings=None, search_paths=None):
        """Loads a MODEL_DIR or one of its checkpoints (MODEL_DIR:best), a folder of transformers, or a checkpoint with a gin file.

        Raises GimletError if it cannot be loaded.
        """
        self._token = secrets.token_hex(16)
        named = dict(_LIMITS, port=0, checkpoint=checkpoint, batch_size=batch_size, gin_file=gin_file, gin_bindings=gin_bindings,
                     gin_search_paths=search_paths, end_with_stdin=True)
        # Other users of this machine can read the command line, but not this file.
        with tempfile.NamedTemporaryFile("w") as token:
            token.write(self._token)
            token.flush()
            self._server = _Server("serve", *flags(dict(named, token_file=token.name)))

    def generate(self, inputs, **decoding):
        """Answers texts: for one, a list of `Answer`, the best first; for a list, a list of such lists.

        `decoding` are any of num_decodes, temperature, topk, topp, beam, alpha, max_tokens, seed and pattern, with the meaning of
        the flags of `gimlet generate`, and choices, a list of texts; without them the model decodes as its files say.
        """
        if "stream" in decoding:
            raise TypeError("generate() returns whole answers and has no `stream`")
        results = self._ask("/v1/generate", {"inputs": _listed(inputs), **decoding})["results"]
        answers = [[Answer(one["text"], one["score"]) for one in result["predictions"]] for result in results]
        return answers[0] if isinstance(inputs, str) else answers

    def score(self, inputs, targets):
        """The log-likelihood that the model gives to targets: a number for one text, a list for lists of as many."""
        scores = self._ask("/v1/score", {"inputs": _listed(inputs), "targets": _listed(targets)})["scores"]
        return scores[0] if isinstance(inputs, str) else scores

    def _ask(self, path, body):
        if self._server is None:
            raise GimletError("this model was closed")
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        connection = http.client.HTTPConnection(self._server.address)
        try:
            connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            found = json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            if not self._server.is_alive():
                self._server.check()
            raise
        finally:
            connection.close()
        if answer.status != 200:
            raise GimletError(found["error"])
        return found

    def close(self):
        """Ends the program and frees its memory."""
        server, self._server = getattr(self, "_server", None), None
        if server is not None:
            server.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    __del__ = close


def _listed(texts):
    return [texts] if isinstance(texts, str) else list(texts)
