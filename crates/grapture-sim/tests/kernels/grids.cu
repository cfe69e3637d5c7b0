// Threads that meet in a block and in a grid.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

extern "C" __global__ void grid_meets(const unsigned *in, unsigned *out)
{
    cg::grid_group grid = cg::this_grid();
    unsigned rank = grid.thread_rank(), size = grid.size();
    out[rank] = in[rank];
    for (int round = 0; round < 3; round++) {
        grid.sync();
        unsigned other = out[(rank + 77) % size];
        grid.sync();
        out[rank] = other * 3 + round + grid.num_blocks();
    }
    auto token = grid.barrier_arrive();
    unsigned before = out[rank];
    grid.barrier_wait(cg::grid_group::arrival_token(token));
    out[rank] = before + out[(rank + 1) % size] * 0;
}

extern "C" __global__ void block_meets(const int *in, int *out)
{
    __shared__ int part[128];
    cg::thread_block block = cg::this_thread_block();
    int t = threadIdx.x, v = in[blockIdx.x * blockDim.x + t];
    part[t] = v;
    block.sync();
    int sum = part[(t + 1) % 128] - part[(t + 64) % 128];
    sum += 1000 * __syncthreads_count(v & 1);
    sum += 100000 * __syncthreads_and(v != 12345);
    sum += 200000 * __syncthreads_or(v < 0);
    if (t < 64)
        asm volatile("bar.sync 1, 64;");
    else
        asm volatile("bar.sync 2, 64;");
    part[t] = sum;
    if (t < 96)
        asm volatile("barrier.cta.arrive 3, 128;");
    else
        asm volatile("barrier.cta.sync 3, 128;");
    __syncthreads();
    out[blockIdx.x * blockDim.x + t] = part[127 - t];
}

// The last block to come sums up what the others left.
__device__ unsigned arrived = 0;

extern "C" __global__ void last_block(const unsigned *in, unsigned *parts, unsigned *out)
{
    __shared__ unsigned sum;
    __shared__ bool last;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    atomicAdd(&sum, in[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        unsigned all = 0;
        for (unsigned i = 0; i < gridDim.x; i++)
            all += *(volatile unsigned *)&parts[i];
        out[0] = all;
        out[1] = arrived;
    }
}

extern "C" __global__ void places(unsigned *out)
{
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    unsigned z = blockIdx.z * blockDim.z + threadIdx.z, lane, lower, size, total, dynamic;
    unsigned i = (z * gridDim.y * blockDim.y + y) * gridDim.x * blockDim.x + x;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lower));
    asm("mov.u32 %0, %%total_smem_size;" : "=r"(total));
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(dynamic));
    asm("mov.u32 %0, WARP_SZ;" : "=r"(size));
    out[4 * i] = lane;
    out[4 * i + 1] = lower;
    out[4 * i + 2] = dynamic;
    out[4 * i + 3] = size + (total >= dynamic);
}
