// Several images side by side: a value is a vector with one lane an image.
//
// A layer then reads like the formula for a single image, has no remainders in any direction, and a norm per image
// needs no sum across lanes. LANES images form a group; a tensor is (group, channel, row, column, lane).

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include <omp.h>

#if defined(__AVX512F__)
constexpr int LANES = 16, SUMS = 16;  // SUMS: vectors that stay in the registers, with room for what they are made of
#else
constexpr int LANES = 8, SUMS = 8;
#endif

typedef float vec __attribute__((vector_size(LANES * sizeof(float)), may_alias));
typedef int places __attribute__((vector_size(LANES * sizeof(int)), may_alias));

// A loop nest of its own: inlined into others, compilers run out of registers for its sums.
#define KERNEL __attribute__((noinline))

static inline vec all(float value) { return value - vec{}; }

// The sum of the lanes.
static inline float total(vec v) {
    typedef float quad __attribute__((vector_size(16)));
    quad parts[LANES / 4];
    std::memcpy(parts, &v, sizeof v);
    for (int k = 1; k < LANES / 4; k++) parts[0] += parts[k];
    return (parts[0][0] + parts[0][2]) + (parts[0][1] + parts[0][3]);
}

// Two rows of a tile that exchange the quarters STEP lanes wide which a transpose moves between them.
template <int STEP, int... LANE>
static inline void exchange(vec& upper, vec& lower, std::integer_sequence<int, LANE...>) {
#if defined(__clang__)
    const vec first = __builtin_shufflevector(upper, lower, (LANE & STEP ? LANES + LANE - STEP : LANE)...);
    lower = __builtin_shufflevector(upper, lower, (LANE & STEP ? LANES + LANE : LANE + STEP)...);
#else
    const vec first = __builtin_shuffle(upper, lower, places{(LANE & STEP ? LANES + LANE - STEP : LANE)...});
    lower = __builtin_shuffle(upper, lower, places{(LANE & STEP ? LANES + LANE : LANE + STEP)...});
#endif
    upper = first;
}

// The transpose of LANES vectors, in place.
template <int STEP = LANES / 2>
static inline void transpose(vec* tile) {
    for (int j = 0; j < LANES; j++)
        if (!(j & STEP)) exchange<STEP>(tile[j], tile[j + STEP], std::make_integer_sequence<int, LANES>());
    if constexpr (STEP > 1) transpose<STEP / 2>(tile);
}

// LANES images, each `size` numbers and `stride` apart, side by side; missing ones, from `known` on, are zero.
static inline void gather(const float* images, size_t stride, size_t size, int known, vec* lanes) {
    size_t p = 0;
    for (; p + LANES <= size; p += LANES) {
        vec tile[LANES] = {};
        for (int lane = 0; lane < known; lane++) std::memcpy(tile + lane, images + lane * stride + p, sizeof(vec));
        transpose(tile);
        for (int k = 0; k < LANES; k++) lanes[p + k] = tile[k];
    }
    for (; p < size; p++)
        for (int lane = 0; lane < LANES; lane++) lanes[p][lane] = lane < known ? images[lane * stride + p] : 0.0f;
}

// And apart again: the first `known` of them.
static inline void scatter(const vec* lanes, size_t stride, size_t size, int known, float* images) {
    size_t p = 0;
    for (; p + LANES <= size; p += LANES) {
        vec tile[LANES];
        for (int k = 0; k < LANES; k++) tile[k] = lanes[p + k];
        transpose(tile);
        for (int lane = 0; lane < known; lane++) std::memcpy(images + lane * stride + p, tile + lane, sizeof(vec));
    }
    for (; p < size; p++)
        for (int lane = 0; lane < known; lane++) images[lane * stride + p] = lanes[p][lane];
}

static inline int groups_of(int count) { return (count + LANES - 1) / LANES; }

// Memory for vectors, not cleared.
struct Vectors {
    explicit Vectors(size_t size) : at(new (std::align_val_t(64)) vec[size]) {}
    ~Vectors() { operator delete[](at, std::align_val_t(64)); }
    Vectors(const Vectors&) = delete;
    Vectors& operator=(const Vectors&) = delete;
    vec* const at;
};
