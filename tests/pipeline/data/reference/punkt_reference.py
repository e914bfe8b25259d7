"""Writes punkt/ and punkt.json: the sentences of NLTK's punkt, for src/data/megatron/punkt.

Run as `python punkt_reference.py` with NLTK 3.9.2. The model is a made-up one, with every kind of knowledge that a trained one has. `kept`
are the sentences with the pattern of `--keep-newlines` in Megatron-LM's preprocess_data.py.
"""

import json
import pathlib

from nltk.tokenize import punkt

BEG_UC, MID_UC, BEG_LC, MID_LC = 1 << 1, 1 << 2, 1 << 4, 1 << 5
ABBREVIATIONS = ["dr", "mr", "e.g", "inc", "u.s", "approx", "p.m", ". . "]
COLLOCATIONS = [("st", "louis"), ("##number##", "august")]
STARTERS = ["however", "the"]
CONTEXTS = {
    "wir": BEG_UC | MID_LC, "smith": MID_UC, "berlin": BEG_UC | MID_UC, "some": BEG_UC | MID_LC, "house": BEG_UC | MID_UC | MID_LC,
    "iphone": BEG_LC | MID_LC, "he": BEG_UC | MID_LC,
}
TEXTS = [
    "", " ", "One.", "One. Two", "  One. Two  ", "Is it? Yes! No...", "Wait... What? He left... and came back.",
    "Dr. Smith met Mr. Jones. They left.", "Things, e.g. apples. Others too.", "Acme Inc. However it failed. Acme Inc. went on.",
    "In the U.S. Some live there. In the U.S. Berlin is not.", "We met at 5 p.m. He was late.", "at 5 p.m. he was late.",
    "J. Smith wrote. A. He did. B. iphone. C. house is. D. House.", "He lives in St. Louis now. St. Paul is far.",
    "On the 3. august it rained. On the 4. September too. See 5. and 6. Berlin.", "He said: \"Go.\" Then he went.",
    "(He went.) She stayed. [Really?] 'Yes.' \"No!\" -- and so on.", "What?! No!!! Yes?? \"So!\"", "A . . . B. C . . . d.",
    "pi is 3.14. e is 2.71.", "end.Next one. www.example.com is a site. See x.y.z. The end", "Line one.\nLine two.\n\nLine three\nLine four. \n",
    "Tab.\tNext.  Two spaces.\u00a0Hard space. Ünï. Çode. \u00c9t\u00e9.", "semi; colon: dash-- Dr.-- end. ), next", "approx. 5 of them. non-approx. Five.",
    "\"Quote.\" (Paren.) 'Single.' Next.) Then.", "A. B. C.", "...", ".", "? !", "Hm. , odd. ; more. : most.", "U.S.A. is. e.g. The", "a.b. C",
]


class KeepingNewlines(punkt.PunktLanguageVars):
    """The pattern of preprocess_data.py."""

    _period_context_fmt = r"""
        \S*
        %(SentEndChars)s
        \s*
        (?=(?P<after_tok>
            %(NonWord)s
            |
            (?P<next_tok>\S+)
        ))"""


def parameters():
    found = punkt.PunktParameters()
    found.abbrev_types = set(ABBREVIATIONS)
    found.collocations = set(COLLOCATIONS)
    found.sent_starters = set(STARTERS)
    found.ortho_context.update(CONTEXTS)
    return found


def main():
    here = pathlib.Path(__file__).parent
    (here / "punkt").mkdir(exist_ok=True)
    punkt.save_punkt_params(parameters(), dir=str(here / "punkt"))
    splitters = {
        "dropped": punkt.PunktSentenceTokenizer(parameters()),
        "kept": punkt.PunktSentenceTokenizer(parameters(), lang_vars=KeepingNewlines()),
    }
    cases = [{"text": text} | {name: splitter.tokenize(text) for name, splitter in splitters.items()} for text in TEXTS]
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (here / "punkt.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
