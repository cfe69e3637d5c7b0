// A C++ program against `cuda.h`, linked with `-lcuda`; compiled twice, the second time with a null
// stream for each thread.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <thread>

#include "harness.h"

static CUdevice device;
static CUcontext context;
static CUstream stream;
static CUmodule module;

static void setup() {
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuModuleLoadData(&module, kernels().c_str()));
}

static CUfunction function(const char* name) {
    CUfunction found;
    OK(cuModuleGetFunction(&found, module, name));
    return found;
}

static CUdeviceptr word(unsigned value) {
    CUdeviceptr address;
    OK(cuMemAlloc(&address, sizeof value));
    OK(cuMemcpyHtoD(address, &value, sizeof value));
    return address;
}

static unsigned read(CUdeviceptr address) {
    unsigned value;
    OK(cuMemcpyDtoH(&value, address, sizeof value));
    return value;
}

static void mul_add(CUstream on, CUdeviceptr address, unsigned factor, unsigned value) {
    void* arguments[] = {&address, &factor, &value};
    OK(cuLaunchKernel(function("mul_add"), 1, 1, 1, 1, 1, 1, 0, on, arguments, nullptr));
}

CASE(a_kernel_runs) {
    setup();
    CUdeviceptr a = word(4);
    mul_add(stream, a, 10, 2);
    OK(cuStreamSynchronize(stream));
    HOLDS(read(a) == 42);
}

CASE(arguments_in_a_buffer_are_taken) {
    setup();
    CUdeviceptr a = word(4);
    struct { CUdeviceptr address; unsigned factor, value; } packed = {a, 10, 2};
    size_t size = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(function("mul_add"), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, extra));
    OK(cuStreamSynchronize(stream));
    HOLDS(read(a) == 42);
}

CASE(the_null_stream_waits_for_blocking_streams) {
    setup();
    CUstream blocking;
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CUdeviceptr a = word(1);
    mul_add(blocking, a, 0, 5);
    mul_add(CU_STREAM_LEGACY, a, 2, 0);
    mul_add(blocking, a, 1, 1);
    OK(cuStreamSynchronize(blocking));
    HOLDS(read(a) == 11);
}

CASE(the_null_stream_is_what_the_program_was_compiled_for) {
    setup();
    unsigned long long mine = 0, other = 0, legacy = 0;
    OK(cuStreamGetId(nullptr, &mine));
    OK(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
    std::thread([&] {
        OK(cuCtxSetCurrent(context));
        OK(cuStreamGetId(nullptr, &other));
    }).join();
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    HOLDS(mine != legacy && mine != other);
#else
    HOLDS(mine == legacy && mine == other);
#endif
}

CASE(a_capture_of_two_streams_is_replayed) {
    setup();
    CUstream other;
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CUevent fork, join;
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    CUdeviceptr a = word(0), b = word(0);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(a, 3, 1, stream));
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(other, fork, 0));
    OK(cuMemcpyDtoDAsync(b, a, 4, other));
    mul_add(other, b, 2, 0);
    OK(cuEventRecord(join, other));
    OK(cuStreamWaitEvent(stream, join, 0));
    mul_add(stream, b, 7, 0);
    CUgraph graph;
    OK(cuStreamEndCapture(stream, &graph));
    CUgraphExec executable;
    OK(cuGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3; i++) OK(cuGraphLaunch(executable, stream));
    OK(cuStreamSynchronize(stream));
    HOLDS(read(b) == 42);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(graph));
}

CASE(a_node_is_added_by_its_generic_parameters) {
    setup();
    CUdeviceptr a = word(4);
    unsigned factor = 10, value = 2;
    void* arguments[] = {&a, &factor, &value};
    CUgraphNodeParams params;
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel.func = function("mul_add");
    params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
    params.kernel.blockDimX = params.kernel.blockDimY = params.kernel.blockDimZ = 1;
    params.kernel.kernelParams = arguments;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec executable;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
    CUDA_GRAPH_INSTANTIATE_PARAMS how;
    memset(&how, 0, sizeof how);
    OK(cuGraphInstantiateWithParams(&executable, graph, &how));
    HOLDS(how.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS);
    OK(cuGraphLaunch(executable, stream));
    OK(cuStreamSynchronize(stream));
    HOLDS(read(a) == 42);
}

CASE(a_driver_entry_point_is_called_by_its_typedef) {
    setup();
    PFN_cuStreamGetId_v12000 ask = nullptr;
    CUdriverProcAddressQueryResult found;
    OK(cuGetProcAddress("cuStreamGetId", reinterpret_cast<void**>(&ask), 12000,
                        CU_GET_PROC_ADDRESS_DEFAULT, &found));
    HOLDS(found == CU_GET_PROC_ADDRESS_SUCCESS && ask != nullptr);
    unsigned long long by_address = 0, by_name = 1;
    OK(ask(stream, &by_address));
    OK(cuStreamGetId(stream, &by_name));
    HOLDS(by_address == by_name);
}

CASE(an_image_is_loaded_as_a_fat_binary) {
    setup();
    // A fat binary of one entry: its header, the header of the entry, and the text.
    const std::string& text = kernels();
    std::vector<unsigned char> image(16 + 64);
    auto put = [&](size_t at, unsigned long long value, size_t bytes) {
        memcpy(&image[at], &value, bytes);
    };
    put(0, 0xba55ed50, 4);
    put(4, 1, 2);
    put(6, 16, 2);
    put(8, 64 + text.size() + 1, 8);
    put(16, 1, 2);
    put(18, 0x101, 2);
    put(20, 64, 4);
    put(24, text.size() + 1, 8);
    put(44, 52, 4);
    image.insert(image.end(), text.begin(), text.end());
    image.push_back(0);
    CUmodule loaded;
    CUfunction nothing;
    OK(cuModuleLoadFatBinary(&loaded, image.data()));
    OK(cuModuleGetFunction(&nothing, loaded, "nothing"));
    OK(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
    OK(cuStreamSynchronize(stream));
}

CASE(a_bad_image_gives_a_log) {
    setup();
    char log[512] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
    CUmodule bad;
    const char* text = ".version 8.0\n.target sm_50\n.address_size 64\n.entry k() { nonsense; }\n";
    HOLDS(cuModuleLoadDataEx(&bad, text, 2, options, values) == CUDA_ERROR_INVALID_PTX);
    HOLDS(strstr(log, "line") != nullptr);
}

CASE(threads_share_a_context) {
    setup();
    CUdeviceptr words[8];
    for (unsigned i = 0; i < 8; i++) words[i] = word(i);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 8; i++)
        threads.emplace_back([i, &words] {
            OK(cuCtxSetCurrent(context));
            CUstream own;
            OK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
            for (int n = 0; n < 20; n++) mul_add(own, words[i], 1, 2);
            OK(cuStreamSynchronize(own));
            OK(cuStreamDestroy(own));
        });
    for (std::thread& thread : threads) thread.join();
    for (unsigned i = 0; i < 8; i++) HOLDS(read(words[i]) == i + 40);
}

CASE(a_callback_gets_the_stream_and_its_data) {
    setup();
    static int seen;
    auto callback = [](CUstream, CUresult status, void* data) {
        seen = status == CUDA_SUCCESS ? *static_cast<int*>(data) : -1;
    };
    int data = 5;
    OK(cuStreamAddCallback(stream, callback, &data, 0));
    OK(cuStreamSynchronize(stream));
    HOLDS(seen == 5);
}

CASE(an_access_outside_breaks_the_context) {
    setup();
    mul_add(stream, 64, 1, 1);
    HOLDS(cuStreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CUdeviceptr a;
    HOLDS(cuMemAlloc(&a, 4) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

int main() { return run_all(); }
