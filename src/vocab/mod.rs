//! L1: token vocabularies (SentencePiece, bytes, pass-through) behind one interface.
