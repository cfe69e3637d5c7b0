// nvcc -arch=sm_75 -ptx reduce.cu -o reduce.ptx   (the comment header that nvcc writes is removed)
extern "C" __global__ void reduce_static(const unsigned *in, unsigned *out, int n)
{
    __shared__ unsigned part[256];
    int t = threadIdx.x;
    unsigned sum = 0;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += blockDim.x * gridDim.x)
        sum += in[i];
    part[t] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s)
            part[t] += part[t + s];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = part[0];
}

extern __shared__ float dynamic_part[];

extern "C" __global__ void reduce_dynamic(const float *in, float *out)
{
    int t = threadIdx.x;
    dynamic_part[t] = in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s)
            dynamic_part[t] += dynamic_part[t + s];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = dynamic_part[0];
}

extern "C" __global__ void reduce_shuffle(const int *in, int *out)
{
    int v = in[blockIdx.x * blockDim.x + threadIdx.x];
    for (int d = 16; d > 0; d >>= 1)
        v += __shfl_down_sync(0xffffffffu, v, d);
    if ((threadIdx.x & 31) == 0)
        atomicAdd(&out[blockIdx.x], v);
}

extern "C" __global__ void barrier_count(const int *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int n = __syncthreads_count(in[i] > 0);
    int all = __syncthreads_and(in[i] > -100);
    int any = __syncthreads_or(in[i] > 1000);
    out[i] = n * 4 + (all != 0) * 2 + (any != 0);
}
