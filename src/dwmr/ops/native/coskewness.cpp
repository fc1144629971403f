// Σ over i < j < k of |M_ijk|, M_ijk = Σ_n x_ni x_nj x_nk, and its gradient, for x (samples, bits).
//
// With z = x_i ⊙ x, s = sign(M) and a fixed i, the moments and both pulls are products of small tiles:
//
//     M_jk = Σ_n z_nj x_nk,    dx_nk += Σ_j z_nj s_jk,    p_nj = Σ_k s_jk x_nk,    dx_nj += x_ni p_nj,  dx_ni += Σ_j x_nj p_nj
//
// Only tiles with j ≤ k are formed, and nothing larger than one row of them is kept. Here a lane is a bit, not an image.

#include <vector>

#include "lanes.h"

namespace {

constexpr int ROWS = 8;  // samples taken together

// The transpose of a tile whose rows lie `stride` vectors apart.
inline void turn(const vec* from, size_t stride, vec* to) {
    for (int j = 0; j < LANES; j++) to[j] = from[j * stride];
    transpose(to);
}

struct Sums {
    const vec* x;  // (samples, blocks): padded with zeros to whole blocks of LANES bits and ROWS samples
    int samples, blocks;
    vec *dx, *z, *signs, *own;  // (samples, blocks), (samples), (LANES, blocks), (samples)

    const float* row(int n) const { return reinterpret_cast<const float*>(x + size_t(n) * blocks); }

    // Moments of bit i with the bits of block b, from the FROM-th, and of block k: their absolute sum; signs are kept.
    template <int FROM>
    KERNEL double moments(int i, int b, int k) const {
        vec m[LANES] = {};
        for (int n = 0; n < samples; n++) {
            const vec other = x[size_t(n) * blocks + k];
            const float* first = reinterpret_cast<const float*>(z + n);
            for (int j = FROM; j < LANES; j++) m[j] += first[j] * other;
        }
        vec sum = {};
        for (int j = 0; j < LANES; j++) {
            if (b * LANES + j <= i) m[j] = vec{};
            if (b == k)
                for (int lane = 0; lane <= j; lane++) m[j][lane] = 0;
            sum += m[j] < 0 ? -m[j] : m[j];
            signs[j * blocks + k] = m[j] > 0 ? all(1) : (m[j] < 0 ? all(-1) : vec{});
        }
        return total(sum);
    }

    // dx of block k, from the products of bit i with block b.
    template <int FROM>
    KERNEL void pull_last(int k) const {
        for (int n = 0; n < samples; n += ROWS) {
            vec sum[ROWS];
            for (int r = 0; r < ROWS; r++) sum[r] = dx[size_t(n + r) * blocks + k];
            for (int j = FROM; j < LANES; j++) {
                const vec s = signs[j * blocks + k];
                for (int r = 0; r < ROWS; r++) sum[r] += reinterpret_cast<const float*>(z + n + r)[j] * s;
            }
            for (int r = 0; r < ROWS; r++) dx[size_t(n + r) * blocks + k] = sum[r];
        }
    }

    // dx of block b and of bit i, from all blocks behind.
    KERNEL void pull_first(int i, int b, const vec* turned) const {
        for (int n = 0; n < samples; n += ROWS) {
            vec p[ROWS] = {};
            const int from = b * LANES, to = blocks * LANES;
            for (int k = from; k < to; k++) {
                const vec s = turned[k];
                for (int r = 0; r < ROWS; r++) p[r] += row(n + r)[k] * s;
            }
            for (int r = 0; r < ROWS; r++) {
                const size_t at = size_t(n + r) * blocks + b;
                dx[at] += row(n + r)[i] * p[r];
                own[n + r] += x[at] * p[r];
            }
        }
    }

    template <int FROM>
    double of_block(int i, int b) const {
        double sum = 0;
        for (int k = b; k < blocks; k++) {
            sum += moments<FROM>(i, b, k);
            pull_last<FROM>(k);
        }
        return sum;
    }

    double of_bit(int i, vec* turned) const {
        double sum = 0;
        std::memset(own, 0, samples * sizeof(vec));
        for (int b = i / LANES; b < blocks; b++) {
            for (int n = 0; n < samples; n++) z[n] = row(n)[i] * x[size_t(n) * blocks + b];
            const bool upper = b * LANES + LANES / 2 <= i + 1;  // the block's first half is not behind i
            sum += upper ? of_block<LANES / 2>(i, b) : of_block<0>(i, b);
            for (int k = b; k < blocks; k++) turn(signs + k, blocks, turned + k * LANES);
            pull_first(i, b, turned);
        }
        for (int n = 0; n < samples; n++) reinterpret_cast<float*>(dx + size_t(n) * blocks)[i] += total(own[n]);
        return sum;
    }
};

}  // namespace

// The sum, and its gradient in `dx` (samples, bits).
extern "C" double dwmr_coskewness(const float* x, int samples, int bits, float* dx, int threads) {
    const int rows = (samples + ROWS - 1) / ROWS * ROWS, blocks = groups_of(bits);
    const size_t size = size_t(rows) * blocks;
    Vectors padded(size);
    std::memset(padded.at, 0, size * sizeof(vec));
    for (int n = 0; n < samples; n++) std::memcpy(padded.at + size_t(n) * blocks, x + size_t(n) * bits, bits * sizeof(float));
    Vectors pulls(threads * size);
    std::memset(pulls.at, 0, threads * size * sizeof(vec));  // fewer threads may come than were asked for
    std::vector<double> sums(threads);
#pragma omp parallel num_threads(threads)
    {
        const int me = omp_get_thread_num();
        Vectors z(rows), own(rows), signs(size_t(LANES) * blocks), turned(size_t(LANES) * blocks);
        const Sums all_sums{padded.at, rows, blocks, pulls.at + me * size, z.at, signs.at, own.at};
        // Bits in turn, the long rows of i = 0, 1, … first: an even share, and the same on every run.
        for (int i = me; i + 2 < bits; i += omp_get_num_threads()) sums[me] += all_sums.of_bit(i, turned.at);
    }
    double sum = 0;
    for (double part : sums) sum += part;
    for (int n = 0; n < samples; n++)
        for (int k = 0; k < bits; k++) {
            float pull = 0;
            for (int t = 0; t < threads; t++) pull += reinterpret_cast<float*>(pulls.at + t * size + size_t(n) * blocks)[k];
            dx[size_t(n) * bits + k] = pull;
        }
    return sum;
}
