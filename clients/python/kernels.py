"""The kernels of the cases, as PTX that the project compiled itself."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PTX = (ROOT / "crates/grapture/fixtures/kernels.ptx").read_bytes() + b"\0"

# What NVRTC compiles where it is there.
SOURCE = """
extern "C" __global__ void scale(float* data, float factor, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i] *= factor;
}
template <typename T> __global__ void fill(T* data, T value) { data[threadIdx.x] = value; }
"""
