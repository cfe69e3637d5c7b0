// What the lanes of a warp do together.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

extern "C" __global__ void shuffles(const int *in, int *out)
{
    int v = in[threadIdx.x], t = threadIdx.x, n = 0;
    int *mine = out + 12 * t;
    mine[n++] = __shfl_sync(~0u, v, 5);
    mine[n++] = __shfl_sync(~0u, v, t + 9, 8);
    mine[n++] = __shfl_up_sync(~0u, v, 3);
    mine[n++] = __shfl_up_sync(~0u, v, 2, 4);
    mine[n++] = __shfl_down_sync(~0u, v, 7);
    mine[n++] = __shfl_down_sync(~0u, v, 3, 16);
    mine[n++] = __shfl_xor_sync(~0u, v, 21);
    mine[n++] = __shfl_xor_sync(~0u, v, 3, 8);
    long long wide = __shfl_xor_sync(~0u, (long long)v << 33, 1);
    mine[n++] = (int)(wide >> 32);
    double real = __shfl_down_sync(~0u, v * 0.5, 1);
    mine[n++] = __double2int_rn(real * 4);
    if (t & 1)
        mine[n] = __shfl_sync(0xaaaaaaaa, v, t ^ 2);
    else
        mine[n] = __shfl_up_sync(0x55555555, v, 2);
    n++;
    mine[n++] = __activemask();
}

extern "C" __global__ void votes(const int *in, unsigned *out)
{
    int v = in[threadIdx.x] & 3, t = threadIdx.x, n = 0, whole;
    unsigned *mine = out + 14 * t;
    mine[n++] = __ballot_sync(~0u, v == 1);
    mine[n++] = __all_sync(~0u, v < 4);
    mine[n++] = __all_sync(~0u, v < 3);
    mine[n++] = __any_sync(~0u, v == 2);
    mine[n++] = __uni_sync(~0u, v == 9);
    mine[n++] = __match_any_sync(~0u, v);
    mine[n++] = __match_any_sync(~0u, (unsigned long long)v << 40);
    mine[n++] = __match_all_sync(~0u, v, &whole) + whole;
    mine[n++] = __match_all_sync(~0u, 17, &whole) + whole;
    if (t < 11) {
        mine[n] = __ballot_sync(0x7ff, v > 1);
        mine[n + 1] = __reduce_add_sync(0x7ff, v);
    } else {
        mine[n] = __ballot_sync(~0x7ffu, v > 1);
        mine[n + 1] = __reduce_max_sync(~0x7ffu, v - 2);
    }
    n += 2;
    mine[n++] = __reduce_min_sync(~0u, in[t]);
    mine[n++] = __reduce_or_sync(~0u, 1u << v) ^ __reduce_xor_sync(~0u, (unsigned)in[t]);
    mine[n++] = __reduce_and_sync(~0u, in[t] | 0xff);
}

extern "C" __global__ void groups(const int *in, int *out)
{
    cg::thread_block block = cg::this_thread_block();
    int v = in[block.thread_rank()], n = 0;
    int *mine = out + 14 * block.thread_rank();
    auto tile = cg::tiled_partition<8>(block);
    mine[n++] = cg::reduce(tile, v, cg::plus<int>());
    mine[n++] = cg::inclusive_scan(tile, v & 15);
    mine[n++] = cg::exclusive_scan(tile, v & 15, cg::bit_xor<int>());
    mine[n++] = tile.meta_group_rank() * 100 + tile.thread_rank();
    mine[n++] = tile.match_any(v & 1);
    auto warp = cg::tiled_partition<32>(block);
    mine[n++] = cg::reduce(warp, v, cg::greater<int>());
    auto any = cg::tiled_partition(block, 16);
    any.sync();
    mine[n++] = any.thread_rank();
    mine[n] = -1;
    if (v % 3 == 0) {
        auto some = cg::coalesced_threads();
        mine[n] = some.size() * 1000 + some.shfl(v, 0) % 100 + some.any(v > 50);
    }
    n++;
    auto alike = cg::labeled_partition(warp, v & 3);
    mine[n++] = cg::reduce(alike, v, cg::less<int>());
    mine[n++] = alike.size() * 100 + alike.thread_rank();
    auto two = cg::binary_partition(warp, (v & 4) != 0);
    mine[n++] = two.size() * 100 + two.meta_group_size();
    mine[n++] = two.shfl_down(v, 1);
    float sum = cg::reduce(tile, v * 0.25f, cg::plus<float>());
    mine[n++] = __float_as_int(sum);
    mine[n++] = block.group_index().x * 10 + block.dim_threads().x;
}

extern "C" __global__ void diverging(const unsigned *in, unsigned *out)
{
    unsigned v = in[threadIdx.x] | 1, steps = 0, seen = 0;
    while (v != 1 && steps < 200) {
        v = v & 1 ? 3 * v + 1 : v / 2;
        steps++;
        if ((steps & 7) == threadIdx.x % 8)
            seen += __popc(__ballot_sync(__activemask(), v & 2) & 0) + 1;
    }
    __syncwarp();
    unsigned all = __ballot_sync(~0u, steps & 1);
    switch (in[threadIdx.x] % 6) {
    case 0: out[threadIdx.x] = steps; break;
    case 1: out[threadIdx.x] = all; break;
    case 2: out[threadIdx.x] = steps * all; break;
    case 3: out[threadIdx.x] = v ^ seen; break;
    case 4: out[threadIdx.x] = __brev(steps); break;
    default: out[threadIdx.x] = seen;
    }
}
