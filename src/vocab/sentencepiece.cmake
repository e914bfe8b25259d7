# Read by cmake before SentencePiece's own file, which would compile every source for a shared library too.
set(SPM_ENABLE_SHARED OFF CACHE BOOL "")
