// A C++ program against NVIDIA's CUDA runtime, which calls the driver. Without a compiler for
// devices it has no kernels of its own; what it does needs none.
#include <cuda_runtime_api.h>

#include "harness.h"

CASE(the_runtime_finds_the_driver) {
    int version = 0;
    OK(cudaDriverGetVersion(&version));
    HOLDS(version > 9000);
}

CASE(the_runtime_counts_devices) {
    int count = 0;
    OK(cudaGetDeviceCount(&count));
    HOLDS(count > 0);
}

CASE(the_runtime_allocates) {
    void* address = nullptr;
    OK(cudaMalloc(&address, 1024));
    OK(cudaFree(address));
}

CASE(the_runtime_captures_and_replays) {
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    void* address = nullptr;
    OK(cudaMalloc(&address, 1024));
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMemsetAsync(address, 1, 1024, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
}

int main() { return run_all(); }
