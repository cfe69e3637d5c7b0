// nvcc -arch=sm_75 -ptx histogram.cu -o histogram.ptx   (the comment header that nvcc writes is removed)
extern "C" __global__ void histogram(const unsigned char *in, unsigned *bins, int n)
{
    __shared__ unsigned local_bins[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        local_bins[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&local_bins[in[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        atomicAdd(&bins[b], local_bins[b]);
}

extern "C" __global__ void atomics(int *i, unsigned *u, unsigned long long *l, float *f, double *d)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&i[0], t);
    atomicSub(&i[1], t);
    atomicMin(&i[2], -t);
    atomicMax(&i[3], t);
    atomicAnd(&i[4], ~(1 << (t & 31)));
    atomicOr(&i[5], 1 << (t & 31));
    atomicXor(&i[6], t);
    atomicInc(&u[0], 17u);
    atomicDec(&u[1], 17u);
    atomicMax(&u[2], (unsigned)t + 0x80000000u);
    u[4 + t] = atomicAdd(&u[3], 1u);
    atomicAdd(&l[0], (unsigned long long)t << 30);
    atomicMax(&l[1], (unsigned long long)t << 33);
    atomicCAS(&l[2], 0ull, (unsigned long long)t + 1);
    atomicAdd(&f[0], 0.5f);
    atomicAdd(&d[0], 0.25);
}
