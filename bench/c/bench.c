/* The calls of ../src/lib.rs's `Program` in C, on the driver API: what the others are measured
 * against. ../src/c.rs declares these functions to Rust.
 *
 * It links nothing and needs no header of NVIDIA's: the driver is loaded by name, as by a program
 * that can run without one, and the few types are declared here. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 32
#define STREAM_NON_BLOCKING 1
#define CAPTURE_MODE_THREAD_LOCAL 1

/* What these functions return besides the driver's own codes. */
#define NO_DRIVER (-1)
#define WRONG_COUNT (-2)

typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef unsigned long long CUdeviceptr;

#define FUNCTIONS(X)                                                                              \
    X(init, "cuInit", (unsigned flags))                                                           \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                                      \
    X(context_retain, "cuDevicePrimaryCtxRetain", (CUcontext * context, int device))              \
    X(context_current, "cuCtxGetCurrent", (CUcontext * context))                                  \
    X(context_push, "cuCtxPushCurrent_v2", (CUcontext context))                                   \
    X(context_pop, "cuCtxPopCurrent_v2", (CUcontext * context))                                   \
    X(stream_create, "cuStreamCreate", (CUstream * stream, unsigned flags))                       \
    X(stream_synchronize, "cuStreamSynchronize", (CUstream stream))                               \
    X(module_load, "cuModuleLoadData", (CUmodule * module, const void *image))                    \
    X(module_function, "cuModuleGetFunction",                                                     \
      (CUfunction * function, CUmodule module, const char *name))                                 \
    X(memory_alloc, "cuMemAlloc_v2", (CUdeviceptr * address, size_t bytes))                       \
    X(memory_fill, "cuMemsetD32_v2", (CUdeviceptr address, unsigned value, size_t count))         \
    X(memory_read, "cuMemcpyDtoH_v2", (void *to, CUdeviceptr from, size_t bytes))                 \
    X(launch_kernel, "cuLaunchKernel",                                                            \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,  \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,                \
       void **parameters, void **extra))                                                          \
    X(capture_begin, "cuStreamBeginCapture_v2", (CUstream stream, int mode))                      \
    X(capture_end, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                      \
    X(graph_nodes, "cuGraphGetNodes", (CUgraph graph, CUgraphNode * nodes, size_t *count))        \
    X(graph_instantiate, "cuGraphInstantiateWithFlags",                                           \
      (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                              \
    X(graph_launch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream))                         \
    X(exec_destroy, "cuGraphExecDestroy", (CUgraphExec exec))                                     \
    X(graph_destroy, "cuGraphDestroy", (CUgraph graph))

#define DECLARE(name, symbol, parameters) static int(*name) parameters;
FUNCTIONS(DECLARE)

/* Ends the function with the driver's code if a call fails. */
#define CHECK(call)                                                                               \
    do {                                                                                          \
        int code = (call);                                                                        \
        if (code != 0) return code;                                                               \
    } while (0)

struct program {
    CUcontext context;
    CUstream stream;
    CUfunction kernel;
    CUdeviceptr word;
    /* Kernels launched since the capture began. */
    size_t submitted;
};

struct graph {
    CUgraph graph;
    CUgraphExec exec;
};

static int resolve(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return NO_DRIVER;
    }
#define RESOLVE(name, symbol, parameters)                                                         \
    if ((name = (int(*) parameters)dlsym(library, symbol)) == NULL) {                             \
        fprintf(stderr, "the driver has no %s\n", symbol);                                        \
        return NO_DRIVER;                                                                         \
    }
    FUNCTIONS(RESOLVE)
    return 0;
}

int bench_c_enter(const struct program *program) { return context_push(program->context); }

int bench_c_leave(void) {
    CUcontext popped;
    return context_pop(&popped);
}

/* In the context that the other program has made current, else in the primary one. */
int bench_c_set_up(const char *ptx, struct program **made) {
    CHECK(resolve());
    struct program *program = calloc(1, sizeof *program);
    if (program == NULL) abort();
    CUmodule module;
    int device;
    CHECK(init(0));
    CHECK(context_current(&program->context));
    if (program->context == NULL) {
        CHECK(device_get(&device, 0));
        CHECK(context_retain(&program->context, device));
    }
    CHECK(bench_c_enter(program));
    CHECK(stream_create(&program->stream, STREAM_NON_BLOCKING));
    CHECK(module_load(&module, ptx));
    CHECK(module_function(&program->kernel, module, "add"));
    CHECK(memory_alloc(&program->word, 4));
    CHECK(memory_fill(program->word, 0, 1));
    *made = program;
    return bench_c_leave();
}

int bench_c_begin(struct program *program) {
    program->submitted = 0;
    return capture_begin(program->stream, CAPTURE_MODE_THREAD_LOCAL);
}

int bench_c_kernels(struct program *program, size_t n) {
    for (size_t i = 0; i < n; i++) {
        void *parameters[] = {&program->word};
        CHECK(launch_kernel(program->kernel, 1, 1, 1, THREADS, 1, 1, 0, program->stream, parameters,
                            NULL));
    }
    program->submitted += n;
    return 0;
}

int bench_c_end(const struct program *program, struct graph *made) {
    size_t count = 0;
    CHECK(capture_end(program->stream, &made->graph));
    CHECK(graph_nodes(made->graph, NULL, &count));
    CHECK(graph_instantiate(&made->exec, made->graph, 0));
    return count == program->submitted ? 0 : WRONG_COUNT;
}

int bench_c_launch(const struct program *program, const struct graph *graph, size_t times) {
    for (size_t i = 0; i < times; i++) CHECK(graph_launch(graph->exec, program->stream));
    return 0;
}

int bench_c_synchronize(const struct program *program) {
    return stream_synchronize(program->stream);
}

int bench_c_destroy(const struct graph *graph) {
    CHECK(exec_destroy(graph->exec));
    return graph_destroy(graph->graph);
}

int bench_c_word(const struct program *program, uint32_t *word) {
    return memory_read(word, program->word, 4);
}
