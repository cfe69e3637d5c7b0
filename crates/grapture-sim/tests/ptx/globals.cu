// nvcc -arch=sm_75 -ptx globals.cu -o globals.ptx   (the comment header that nvcc writes is removed)
struct Mixed { char c; short s; int i; float f; double d; };
__constant__ int primes[8] = { 2, 3, 5, 7, 11, 13, 17, 19 };
__constant__ float scale = 1.5f;
__device__ int counter = 5;
__device__ int squares[4] = { 1, 4, 9, 16 };
__device__ int *pointer = &squares[2];
__device__ const char text[] = "grapture";
__device__ Mixed mixed = { 1, -2, 3, 4.5f, -6.25 };
__device__ int zeroed[32];

extern "C" __global__ void read_globals(int *out, float *fout)
{
    int i = threadIdx.x;
    out[i] = primes[i & 7] + *pointer + text[i & 7] + mixed.s + zeroed[i & 31];
    fout[i] = scale * mixed.f + (float)mixed.d;
    atomicAdd(&counter, 1);
}

extern "C" __global__ void grid3(unsigned *out)
{
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
    unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
    unsigned w = gridDim.x * blockDim.x, h = gridDim.y * blockDim.y;
    out[(z * h + y) * w + x] = x | y << 8 | z << 16;
}

extern "C" __global__ void __launch_bounds__(128, 2) vectors(const float4 *in, float4 *out, const int2 *in2, uchar4 *out2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = in[i];
    out[i] = make_float4(v.w, v.z, v.y, v.x);
    int2 p = in2[i];
    out2[i] = make_uchar4(p.x, p.y, p.x + p.y, p.x - p.y);
}
