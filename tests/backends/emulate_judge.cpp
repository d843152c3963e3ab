// judge.cu on a CPU.
#include "emulate.h"

#define sqrtf std::sqrt
#include "judge.cu"

static struct { Given in; Made out; int n, m; } arguments;

static void one_thread() { judge_instance(arguments.in, arguments.out, arguments.n, arguments.m); }

// `given` and `made`: the addresses in the order of the structures
extern "C" void run(const void* given, const void* made, int n, int m, int batch) {
    std::memcpy(&arguments.in, given, sizeof(Given));
    std::memcpy(&arguments.out, made, sizeof(Made));
    arguments.n = n, arguments.m = m;
    kernel = one_thread;
    launch(batch, 1);
}
