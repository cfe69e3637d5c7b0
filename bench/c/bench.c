/* The sequences of ../src/lib.rs in C, on the driver API: what the others are measured against.
 * A change here is a change there.
 *
 * It links nothing: the driver is loaded by name, as by a program that can run without one. */
#define _GNU_SOURCE
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS 32
#define MOST_IN_FLIGHT 500

/* The kernel, with a zero byte at its end. */
__asm__(".section .rodata\nptx:\n.incbin \"add.ptx\"\n.byte 0\n.previous\n");
extern const char ptx[];

static const struct plan {
    size_t n, captures, launches, batch;
} plans[] = {
    {1, 400, 400, 10}, {10, 300, 300, 10}, {100, 100, 200, 10}, {1000, 15, 30, 10}, {10000, 3, 8, 3},
};

#define FUNCTIONS(X)                                                                              \
    X(init, "cuInit", PFN_cuInit_v2000)                                                           \
    X(device_get, "cuDeviceGet", PFN_cuDeviceGet_v2000)                                           \
    X(context_retain, "cuDevicePrimaryCtxRetain", PFN_cuDevicePrimaryCtxRetain_v7000)             \
    X(context_set, "cuCtxSetCurrent", PFN_cuCtxSetCurrent_v4000)                                  \
    X(stream_create, "cuStreamCreate", PFN_cuStreamCreate_v2000)                                  \
    X(stream_synchronize, "cuStreamSynchronize", PFN_cuStreamSynchronize_v2000)                   \
    X(module_load, "cuModuleLoadData", PFN_cuModuleLoadData_v2000)                                \
    X(module_function, "cuModuleGetFunction", PFN_cuModuleGetFunction_v2000)                      \
    X(memory_alloc, "cuMemAlloc_v2", PFN_cuMemAlloc_v3020)                                        \
    X(memory_fill, "cuMemsetD32_v2", PFN_cuMemsetD32_v3020)                                       \
    X(memory_read, "cuMemcpyDtoH_v2", PFN_cuMemcpyDtoH_v3020)                                     \
    X(launch_kernel, "cuLaunchKernel", PFN_cuLaunchKernel_v4000)                                  \
    X(capture_begin, "cuStreamBeginCapture_v2", PFN_cuStreamBeginCapture_v10010)                  \
    X(capture_end, "cuStreamEndCapture", PFN_cuStreamEndCapture_v10000)                           \
    X(graph_nodes, "cuGraphGetNodes", PFN_cuGraphGetNodes_v10000)                                 \
    X(graph_instantiate, "cuGraphInstantiateWithFlags", PFN_cuGraphInstantiateWithFlags_v11040)   \
    X(graph_launch, "cuGraphLaunch", PFN_cuGraphLaunch_v10000)                                    \
    X(exec_destroy, "cuGraphExecDestroy", PFN_cuGraphExecDestroy_v10000)                          \
    X(graph_destroy, "cuGraphDestroy", PFN_cuGraphDestroy_v10000)

#define DECLARE(name, symbol, type) static type name;
FUNCTIONS(DECLARE)

static CUstream stream;
static CUfunction kernel;
static CUdeviceptr word;

static void fail(const char *what, int code) {
    fprintf(stderr, "%s failed: %d\n", what, code);
    exit(1);
}

static void check(CUresult code, const char *what) {
    if (code != CUDA_SUCCESS) fail(what, code);
}
#define CHECK(call) check(call, #call)

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void sample(const char *measure, size_t n, double nanoseconds) {
    printf("%s,%zu,%.1f\n", measure, n, nanoseconds);
}

static void set_up(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) fail(dlerror(), 0);
#define RESOLVE(name, symbol, type)                                                               \
    if ((name = (type)dlsym(library, symbol)) == NULL) fail(symbol, 0);
    FUNCTIONS(RESOLVE)
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CHECK(init(0));
    CHECK(device_get(&device, 0));
    CHECK(context_retain(&context, device));
    CHECK(context_set(context));
    CHECK(stream_create(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(module_load(&module, ptx));
    CHECK(module_function(&kernel, module, "add"));
    CHECK(memory_alloc(&word, 4));
    CHECK(memory_fill(word, 0, 1));
}

static void kernels(size_t n) {
    for (size_t i = 0; i < n; i++) {
        void *parameters[] = {&word};
        CHECK(launch_kernel(kernel, 1, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL));
    }
}

struct graph {
    CUgraph graph;
    CUgraphExec exec;
};

static struct graph captures(const struct plan *plan) {
    struct graph last = {NULL, NULL};
    for (size_t i = 0; i <= plan->captures; i++) {
        struct graph made;
        size_t count = 0;
        CHECK(capture_begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        double start = now();
        kernels(plan->n);
        double captured = now();
        CHECK(capture_end(stream, &made.graph));
        CHECK(graph_nodes(made.graph, NULL, &count));
        CHECK(graph_instantiate(&made.exec, made.graph, 0));
        double ended = now();
        if (count != plan->n) fail("the count of nodes", (int)count);
        if (i > 0) {
            sample("capture_op", plan->n, (captured - start) / (double)plan->n);
            sample("end_instantiate", plan->n, ended - captured);
        }
        if (last.exec != NULL) {
            CHECK(exec_destroy(last.exec));
            CHECK(graph_destroy(last.graph));
        }
        last = made;
    }
    return last;
}

static size_t launches(const struct plan *plan, CUgraphExec exec) {
    for (size_t i = 0; i <= plan->launches; i++) {
        double start = now();
        for (size_t j = 0; j < plan->batch; j++) CHECK(graph_launch(exec, stream));
        double submitted = now();
        CHECK(stream_synchronize(stream));
        if (i > 0) sample("launch", plan->n, (submitted - start) / (double)plan->batch);
    }
    for (size_t i = 0; i < plan->launches; i++) {
        double start = now();
        CHECK(graph_launch(exec, stream));
        CHECK(stream_synchronize(stream));
        sample("launch_sync", plan->n, now() - start);
    }
    return ((plan->launches + 1) * plan->batch + plan->launches) * plan->n;
}

static size_t measure(const struct plan *plan) {
    struct graph made = captures(plan);
    size_t ran = launches(plan, made.exec);
    if (plan->n <= MOST_IN_FLIGHT) {
        for (size_t i = 0; i <= plan->launches; i++) {
            double start = now();
            kernels(plan->n);
            double submitted = now();
            CHECK(stream_synchronize(stream));
            double done = now();
            if (i > 0) {
                sample("eager_op", plan->n, (submitted - start) / (double)plan->n);
                sample("eager_sync", plan->n, done - start);
            }
        }
        ran += (plan->launches + 1) * plan->n;
    }
    CHECK(exec_destroy(made.exec));
    CHECK(graph_destroy(made.graph));
    return ran;
}

int main(void) {
    size_t ran = 0;
    uint32_t found = 0;
    set_up();
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) ran += measure(&plans[i]);
    CHECK(memory_read(&found, word, 4));
    if (found != (uint32_t)(ran * THREADS)) fail("the count of kernels", (int)found);
    return 0;
}
