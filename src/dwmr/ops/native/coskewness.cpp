// Σ over i < j < k of |M_ijk|, M_ijk = Σ_n x_ni x_nj x_nk, and its gradient, for x (samples, bits).
//
// For a fixed i and all j and k behind it, with z = x_i ⊙ x and s = sign(M), which is 0 for j = k:
//
//     M_jk = Σ_n z_nj x_nk,    q_nk = Σ_j s_jk x_nj,    dx_nk += x_ni q_nk,    dx_ni += ½ Σ_k x_nk q_nk
//
// M is formed in tiles with j ≤ k, and s mirrored. Signs need no multiplications where the processor can look up: tables
// have the 16 sums ±x_nj ± … of four bits, and four signs number one of them. Here a lane is a bit, not an image.

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <vector>

#include "lanes.h"

namespace {

constexpr int ROWS = 8;  // samples taken together

template <int... LANE>
inline places numbered(std::integer_sequence<int, LANE...>) {
    return places{LANE...};
}

inline places count_from(int first) { return first + numbered(std::make_integer_sequence<int, LANES>()); }

inline places negative(vec m, bool or_zero) { return or_zero ? m <= 0 : m < 0; }

// The sum of GROUP bits, each times the sign of its moment, is `looked_up` in a table of the bits by these signs.
#if defined(__AVX512F__)
constexpr int GROUP = 4;
typedef vec Table;

inline Table table_of(const float* x) {
    Table sums = {};
    for (int j = 0; j < GROUP; j++) sums += (count_from(0) & 1 << j) != 0 ? all(-x[j]) : all(x[j]);
    return sums;
}

inline vec signs_of(const vec* m, bool or_zero) {
    places number = {};
    for (int j = 0; j < GROUP; j++) number |= negative(m[j], or_zero) & 1 << j;
    return (vec)number;
}

inline vec looked_up(Table table, vec number) { return (vec)_mm512_permutexvar_ps((__m512i)number, (__m512)table); }
#else
constexpr int GROUP = 1;
typedef float Table;

inline Table table_of(const float* x) { return *x; }
inline vec signs_of(const vec* m, bool or_zero) { return negative(*m, or_zero) ? all(-1) : all(1); }
inline vec looked_up(Table x, vec sign) { return x * sign; }
#endif

constexpr int GROUPS = LANES / GROUP;  // of a block of LANES bits

// Bit i of (blocks, samples) vectors: its samples lie LANES numbers apart.
inline float* bit(vec* x, int samples, int i) {
    return reinterpret_cast<float*>(x + size_t(i / LANES) * samples) + i % LANES;
}

struct Sums {
    int samples, bits, blocks;
    vec* x;               // (blocks, samples): padded with zeros to whole blocks of LANES bits and ROWS samples
    const Table* tables;  // (samples / ROWS, groups, ROWS)
    vec *dx, *z;          // (blocks, samples), (samples)
    vec *plus, *minus;    // (blocks, groups): signs, with that of 0 as +1 or as -1; +1 where there is no moment

    // Moments of bit i with the bits of block b, from the FROM-th, and of block k: their absolute sum; signs are kept.
    template <int FROM>
    KERNEL double moments(int i, int b, int k, bool& zeros) const {
        const vec* others = x + size_t(k) * samples;
        vec m[LANES] = {};
        for (int n = 0; n < samples; n++) {
            const vec other = others[n];
            const float* first = reinterpret_cast<const float*>(z + n);
            for (int j = FROM; j < LANES; j++) m[j] += first[j] * other;
        }
        const places last = count_from(k * LANES);
        vec sum = {};
        places zero = {};
        for (int j = 0; j < LANES; j++) {
            const int middle = b * LANES + j;
            const places counts = (last > middle) & (last < bits) & (middle > i ? -1 : 0);
            sum += counts ? (m[j] < 0 ? -m[j] : m[j]) : vec{};
            zero |= counts & (m[j] == 0);
            m[j] = counts ? m[j] : all(1);
        }
        for (int lane = 0; lane < LANES; lane++) zeros |= zero[lane] != 0;
        vec turned[LANES];
        std::memcpy(turned, m, sizeof m);
        transpose(turned);
        if (b == k)  // a moment's mirror image is 1
            for (int j = 0; j < LANES; j++) turned[j] = m[j] *= turned[j];
        keep_signs(m, b, k);
        keep_signs(turned, k, b);
        return total(sum);
    }

    // The signs of moments of the bits of block `from`, a row each, and of block `to`, a lane each.
    void keep_signs(const vec* m, int from, int to) const {
        const size_t at = (size_t(to) * blocks + from) * GROUPS;
        for (int g = 0; g < GROUPS; g++) {
            plus[at + g] = signs_of(m + g * GROUP, false);
            minus[at + g] = signs_of(m + g * GROUP, true);
        }
    }

    // `weight` times the gradient of the moments of bit i.
    KERNEL void pull(int i, const vec* signs, float weight) const {
        const int start = (i + 1) / GROUP, stop = blocks * GROUPS;
        const float* first = bit(x, samples, i);
        float* to_first = bit(dx, samples, i);
        for (int n = 0; n < samples; n += ROWS) {
            float passed[ROWS] = {};  // what the first table adds for bits up to i
            for (int j = start * GROUP; j <= i; j++)
                for (int r = 0; r < ROWS; r++) passed[r] += bit(x, samples, j)[(n + r) * LANES];
            vec own[ROWS] = {};
            for (int k = (i + 1) / LANES; k < blocks; k++) {
                const vec* bits_k = x + size_t(k) * samples + n;
                vec* to = dx + size_t(k) * samples + n;
                vec q[ROWS];
                for (int r = 0; r < ROWS; r++) q[r] = -passed[r] - bits_k[r];  // itself, which a table adds too
                const Table* table = tables + (size_t(n) * stop + start * ROWS);
                for (int g = start; g < stop; g++, table += ROWS) {
                    const vec s = signs[size_t(k) * stop + g];
                    for (int r = 0; r < ROWS; r++) q[r] += looked_up(table[r], s);
                }
                const places behind = count_from(k * LANES) > i;
                for (int r = 0; r < ROWS; r++) {
                    q[r] = behind ? q[r] : vec{};
                    to[r] += weight * first[(n + r) * LANES] * q[r];
                    own[r] += bits_k[r] * q[r];
                }
            }
            for (int r = 0; r < ROWS; r++) to_first[(n + r) * LANES] += weight / 2 * total(own[r]);
        }
    }

    double of_bit(int i) const {
        const float* first = bit(x, samples, i);
        double sum = 0;
        bool zeros = false;
        constexpr decltype(&Sums::moments<0>) from_quarter[] = {
            &Sums::moments<0>, &Sums::moments<LANES / 4>, &Sums::moments<LANES / 2>, &Sums::moments<LANES / 4 * 3>};
        for (int b = (i + 1) / LANES; b < blocks; b++) {
            const vec* second = x + size_t(b) * samples;
            for (int n = 0; n < samples; n++) z[n] = first[n * LANES] * second[n];
            const int quarter = std::max(0, i + 1 - b * LANES) / (LANES / 4);  // the first that has a bit behind i
            for (int k = b; k < blocks; k++) sum += (this->*from_quarter[quarter])(i, b, k, zeros);
        }
        pull(i, plus, zeros ? 0.5f : 1.0f);
        if (zeros) pull(i, minus, 0.5f);
        return sum;
    }
};

}  // namespace

// The sum, and its gradient in `dx` (samples, bits).
extern "C" double dwmr_coskewness(const float* x, int samples, int bits, float* dx, int threads) {
    const int rows = (samples + ROWS - 1) / ROWS * ROWS, blocks = groups_of(bits), groups = blocks * GROUPS;
    const size_t size = size_t(rows) * blocks;
    Vectors padded(size), tables(size * GROUPS * sizeof(Table) / sizeof(vec));
    std::memset(padded.at, 0, size * sizeof(vec));
    for (int n = 0; n < samples; n++)
        for (int k = 0; k < bits; k += LANES)
            std::memcpy(padded.at + size_t(k / LANES) * rows + n, x + size_t(n) * bits + k,
                std::min(LANES, bits - k) * sizeof(float));
    Vectors pulls(threads * size);
    std::memset(pulls.at, 0, threads * size * sizeof(vec));  // fewer threads may come than were asked for
    std::vector<double> sums(threads);
#pragma omp parallel num_threads(threads)
    {
        const int me = omp_get_thread_num();
        Vectors z(rows), plus(size_t(blocks) * groups), minus(size_t(blocks) * groups);
        Table* made = reinterpret_cast<Table*>(tables.at);
#pragma omp for
        for (int n = 0; n < rows; n++)
            for (int g = 0; g < groups; g++) {
                const size_t at = (size_t(n / ROWS) * groups + g) * ROWS + n % ROWS;
                made[at] = table_of(bit(padded.at, rows, g * GROUP) + n * LANES);
            }
        const Sums all_sums{rows, bits, blocks, padded.at, made, pulls.at + me * size, z.at, plus.at, minus.at};
        // Bits in turn, the long rows of i = 0, 1, … first: an even share, and the same on every run.
        for (int i = me; i + 2 < bits; i += omp_get_num_threads()) sums[me] += all_sums.of_bit(i);
    }
    double sum = 0;
    for (double part : sums) sum += part;
    for (int n = 0; n < samples; n++)
        for (int k = 0; k < bits; k++) {
            float pull = 0;
            for (int t = 0; t < threads; t++) pull += bit(pulls.at + t * size, rows, k)[n * LANES];
            dx[size_t(n) * bits + k] = pull;
        }
    return sum;
}
