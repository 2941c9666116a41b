/* Which of the compiled instruction sets this processor has: its place in `SETS` of `library.py`, or -1. */
int cotrans_processor(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni"))
        return 0;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) return 1;
    return -1;
}

/* The digest of the sources, which SOURCES gives. */
const char *cotrans_sources(void) { return SOURCES; }
