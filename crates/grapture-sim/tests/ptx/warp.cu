// nvcc -arch=sm_75 -ptx warp.cu -o warp.ptx   (the comment header that nvcc writes is removed)
extern "C" __global__ void warp_ops(const int *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = in[i];
    int *o = out + 12 * i;
    o[0] = __shfl_sync(0xffffffffu, v, 5);
    o[1] = __shfl_up_sync(0xffffffffu, v, 3);
    o[2] = __shfl_down_sync(0xffffffffu, v, 3, 8);
    o[3] = __shfl_xor_sync(0xffffffffu, v, 1);
    o[4] = (int)__ballot_sync(0xffffffffu, v > 0);
    o[5] = __any_sync(0xffffffffu, v > 40);
    o[6] = __all_sync(0xffffffffu, v > -1000);
    o[7] = (int)__match_any_sync(0xffffffffu, v & 3);
    int pred;
    o[8] = (int)__match_all_sync(0xffffffffu, v, &pred);
    o[9] = pred;
    o[10] = (int)__activemask();
    __syncwarp();
    if (i & 1)
        o[11] = (int)__ballot_sync(0xaaaaaaaau, v > 0);
    else
        o[11] = (int)__ballot_sync(0x55555555u, v > 0);
}

extern "C" __global__ void faulty(int *p, int kind)
{
    if (threadIdx.x == 3) {
        if (kind == 0) p[1 << 20] = 1;
        if (kind == 1) *(int *)((char *)p + 1) = 1;
        if (kind == 2) __trap();
        if (kind == 3) asm volatile("bar.sync 1, 64;");
    }
}
