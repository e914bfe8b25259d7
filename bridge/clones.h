// Functions compiled once for each kind of x86 processor, of which the program picks one when it starts.

#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define GIMLET_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GIMLET_CLONES
#endif
