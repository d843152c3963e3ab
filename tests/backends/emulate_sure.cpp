// sure.cu on a CPU.
#include "emulate.h"

#define sqrtf std::sqrt
#include "sure.cu"

static struct { Given in; Made out; int n, many; } arguments;

static void one_thread() { sure_instance(arguments.in, arguments.out, arguments.n, arguments.many); }

// `given` and `made`: the addresses in the order of the structures
extern "C" void run(const void* given, const void* made, int n, int many, int batch) {
    std::memcpy(&arguments.in, given, sizeof(Given));
    std::memcpy(&arguments.out, made, sizeof(Made));
    arguments.n = n, arguments.many = many;
    kernel = one_thread;
    launch(batch, 1);
}
