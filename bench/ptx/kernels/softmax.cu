// nvcc -arch=sm_75 -ptx softmax.cu -o softmax.ptx   (the comment header that nvcc writes is removed)
__device__ float block_reduce(float value, bool largest, float *part)
{
    for (int d = 16; d > 0; d >>= 1) {
        float other = __shfl_xor_sync(0xffffffffu, value, d);
        value = largest ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = value;
    __syncthreads();
    value = part[0];
    for (int warp = 1; warp < blockDim.x / 32; warp++)
        value = largest ? fmaxf(value, part[warp]) : value + part[warp];
    __syncthreads();
    return value;
}

// One block for each row.
extern "C" __global__ void softmax(const float *in, float *out, int columns)
{
    __shared__ float part[32];
    const float *row = in + (size_t)blockIdx.x * columns;
    float *to = out + (size_t)blockIdx.x * columns;
    float largest = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        largest = fmaxf(largest, row[i]);
    largest = block_reduce(largest, true, part);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += __expf(row[i] - largest);
    sum = block_reduce(sum, false, part);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        to[i] = __expf(row[i] - largest) / sum;
}
