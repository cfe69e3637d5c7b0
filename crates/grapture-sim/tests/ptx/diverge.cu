// nvcc -arch=sm_75 -ptx diverge.cu -o diverge.ptx   (the comment header that nvcc writes is removed)
extern "C" __global__ void collatz(const unsigned *in, unsigned *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned long long v = in[i];
    unsigned steps = 0;
    while (v != 1) {
        if (v & 1)
            v = 3 * v + 1;
        else
            v >>= 1;
        ++steps;
    }
    out[i] = steps;
}

extern "C" __global__ void switcher(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int v = in[i];
    int r;
    switch (v) {
    case 0: r = 10; break;
    case 1: r = v * 7 + i; break;
    case 2: r = i - 4; break;
    case 3: r = i * i; break;
    case 4: r = -i; break;
    case 5: r = i ^ 0x55; break;
    case 6: r = i << 3; break;
    case 7: { r = 0; for (int k = 0; k < i; ++k) r += k ^ v; break; }
    default: r = -1;
    }
    out[i] = r;
}

extern "C" __global__ void spin_lock(int *lock, int *counter)
{
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *(volatile int *)counter = *(volatile int *)counter + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

extern "C" __global__ void spin_lock_simple(int *lock, int *counter)
{
    while (atomicCAS(lock, 0, 1) != 0)
        ;
    __threadfence();
    *(volatile int *)counter = *(volatile int *)counter + 1;
    __threadfence();
    atomicExch(lock, 0);
}

extern "C" __global__ void endless(volatile int *flag)
{
    while (*flag == 0)
        ;
}
