// nvcc -arch=sm_75 -ptx integer.cu -o integer.ptx   (the comment header that nvcc writes is removed)
extern "C" __global__ void wide(const unsigned long long *a, const unsigned long long *b, unsigned long long *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long x = a[i], y = b[i];
    unsigned long long *o = out + 10 * i;
    o[0] = x * y;
    o[1] = __umul64hi(x, y);
    o[2] = (unsigned long long)__mul64hi((long long)x, (long long)y);
    o[3] = y ? x / y : 0;
    o[4] = y ? x % y : 0;
    o[5] = y ? (unsigned long long)((long long)x / (long long)y) : 0;
    o[6] = (unsigned long long)(unsigned)x * (unsigned)y;
    o[7] = (unsigned long long)((long long)(int)x * (int)y);
    o[8] = x << (y & 63);
    o[9] = (unsigned long long)((long long)x >> (y & 63));
}

extern "C" __global__ void bits(const unsigned *a, const unsigned *b, unsigned *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = a[i], y = b[i];
    unsigned *o = out + 16 * i;
    o[0] = __popc(x);
    o[1] = __clz(x);
    o[2] = __ffs(x);
    o[3] = __brev(x);
    o[4] = __byte_perm(x, y, 0x3715);
    o[5] = __funnelshift_l(x, y, 7);
    o[6] = __funnelshift_r(x, y, y);
    o[7] = __umulhi(x, y);
    o[8] = __mulhi((int)x, (int)y);
    o[9] = __sad((int)x, (int)y, 3u);
    o[10] = __dp4a((int)x, (int)y, 5);
    o[11] = (x & y) ^ (~x | 0x0f0f0f0fu);
    o[12] = y ? x / y : 0u;
    o[13] = y ? (unsigned)((int)x % (int)(y | 1)) : 0u;
    o[14] = (unsigned)(short)x * (unsigned short)y;
    o[15] = (unsigned)min((int)x, (int)y) + max(x, y) + abs((int)x);
}

extern "C" __global__ void carry(const unsigned *a, const unsigned *b, unsigned *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned r0, r1, r2, s0, s1, s2;
    asm("add.cc.u32 %0, %3, %6;\n\taddc.cc.u32 %1, %4, %7;\n\taddc.u32 %2, %5, %8;"
        : "=r"(r0), "=r"(r1), "=r"(r2)
        : "r"(a[3 * i]), "r"(a[3 * i + 1]), "r"(a[3 * i + 2]), "r"(b[3 * i]), "r"(b[3 * i + 1]), "r"(b[3 * i + 2]));
    asm("sub.cc.u32 %0, %3, %6;\n\tsubc.cc.u32 %1, %4, %7;\n\tsubc.u32 %2, %5, %8;"
        : "=r"(s0), "=r"(s1), "=r"(s2)
        : "r"(a[3 * i]), "r"(a[3 * i + 1]), "r"(a[3 * i + 2]), "r"(b[3 * i]), "r"(b[3 * i + 1]), "r"(b[3 * i + 2]));
    out[6 * i] = r0; out[6 * i + 1] = r1; out[6 * i + 2] = r2;
    out[6 * i + 3] = s0; out[6 * i + 4] = s1; out[6 * i + 5] = s2;
}
