// nvcc -arch=sm_75 -ptx functions.cu -o functions.ptx   (the comment header that nvcc writes is removed)
struct Pair { int a; double b; };

__device__ __noinline__ unsigned fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ Pair twist(Pair p, int k) { Pair q; q.a = p.a * k; q.b = p.b + k; return q; }
__device__ __noinline__ int plus_one(int x) { return x + 1; }
__device__ __noinline__ int times_two(int x) { return x * 2; }
typedef int (*unary)(int);
__device__ unary table[2] = { plus_one, times_two };

extern "C" __global__ void fibonacci(unsigned *out) { unsigned i = threadIdx.x; out[i] = fib(i % 12); }

extern "C" __global__ void by_value(Pair p, Pair *out)
{
    int i = threadIdx.x;
    out[i] = twist(p, i);
}

extern "C" __global__ void indirect(int *out)
{
    int i = threadIdx.x;
    out[i] = table[i & 1](i);
}

extern "C" __global__ void local_array(const int *in, int *out, int n)
{
    int i = threadIdx.x;
    int scratch[16];
    for (int k = 0; k < 16; ++k)
        scratch[k] = in[(i + k) % n];
    int at = i;
    int sum = 0;
    for (int k = 0; k < n; ++k) {
        at = (at * 5 + scratch[at & 15]) & 0xff;
        sum += scratch[at & 15] * k;
    }
    out[i] = sum;
}
