// tracks.cu on a CPU.
#include "emulate.h"

#define sqrtf std::sqrt
#include "certified/tracks.cu"

static void* const* given;
static int sizes[2];

static void one_thread() { call(tracks, given, sizes); }

// `arrays`: the addresses in the order of the arguments, then two numbers
extern "C" void run(void* const* arrays, int first, int second, int batch) {
    given = arrays, sizes[0] = first, sizes[1] = second;
    kernel = one_thread;
    launch(batch, 1);
}
