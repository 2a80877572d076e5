// What all kernels share. A team of LANES threads works on one item (FOR_ITEMS), or one thread (FOR_EACH).
// With HOST_TWIN the same source is ordinary C++ in which a team is one thread: the tests run it anywhere.
// Within a team all lanes take the same branches around sync, team_* and insert.
#ifdef HOST_TWIN
#define NO_UNROLL
#include <math.h>
#define LANES 1
#define KERNEL extern "C" void
#define DEVICE static inline
#define ROUTINE static
#define INF INFINITY
#define FOR_ITEMS(i, n) for (long long i = 0; i < (n); i++)
#define FOR_EACH(i, n) FOR_ITEMS(i, n)
static double shared_memory[1 << 21];
#define TEAM_SHARED(doubles) shared_memory
#define TEAM_NUMBER 0
DEVICE void sync() {}
DEVICE int lane() { return 0; }
DEVICE double team_sum(double x) { return x; }
DEVICE void team_argmin(double &key, int &item) {}
DEVICE int team_rank(bool flag, int &total) { total = flag; return 0; }
DEVICE void lower(int *slot, int value) { if (value < *slot) *slot = value; }
template <class T> DEVICE bool claim(T *slot, T value) {
    if (*slot != (T)-1) return false;
    *slot = value;
    return true;
}
#else
#define NO_UNROLL _Pragma("unroll 1")
#define KERNEL extern "C" __global__ void
#define DEVICE static __device__ __forceinline__
#define ROUTINE static __device__ __noinline__
#define INF __longlong_as_double(0x7ff0000000000000LL)
#define FOR_ITEMS(i, n) \
    for (long long i = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / LANES; i < (n); \
         i += gridDim.x * (long long)blockDim.x / LANES)
#define FOR_EACH(i, n) \
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < (n); \
         i += gridDim.x * (long long)blockDim.x)
extern __shared__ double shared_memory[];
#define TEAM_SHARED(doubles) (shared_memory + threadIdx.x / LANES * (doubles))
#define TEAM_NUMBER (int)((blockIdx.x * blockDim.x + threadIdx.x) / LANES)
#if LANES == 1
DEVICE void sync() {}
DEVICE int lane() { return 0; }
DEVICE double team_sum(double x) { return x; }
DEVICE void team_argmin(double &key, int &item) {}
DEVICE int team_rank(bool flag, int &total) { total = flag; return 0; }
#else
#define ALL_LANES 0xffffffffu
DEVICE void sync() { __syncwarp(); }
DEVICE int lane() { return threadIdx.x % LANES; }
// The same bits in every lane: at each level both partners add the same two numbers.
DEVICE double team_sum(double x) {
    for (int step = LANES / 2; step > 0; step /= 2) x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}
// The smallest key, and of equal keys the smallest item, in every lane.
DEVICE void team_argmin(double &key, int &item) {
    for (int step = LANES / 2; step > 0; step /= 2) {
        double other = __shfl_xor_sync(ALL_LANES, key, step);
        int its = __shfl_xor_sync(ALL_LANES, item, step);
        if (other < key || (other == key && its < item)) { key = other; item = its; }
    }
}
// How many lanes before this one have the flag set, and how many have in all.
DEVICE int team_rank(bool flag, int &total) {
    unsigned mask = __ballot_sync(ALL_LANES, flag);
    total = __popc(mask);
    return __popc(mask & ((1u << lane()) - 1u));
}
#endif
// Take an empty slot (-1). Which lane wins decides where a key is stored, never a number.
DEVICE bool claim(int *slot, int value) { return atomicCAS(slot, -1, value) == -1; }
DEVICE void lower(int *slot, int value) { atomicMin(slot, value); }
#endif

DEVICE double largest(double a, double b) { return a > b ? a : b; }
