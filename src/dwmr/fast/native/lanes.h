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

#include <omp.h>

#if defined(__AVX512F__)
constexpr int LANES = 16;
constexpr int CHANNELS = 4, PIXELS = 4;  // a tile of sums that stays in the registers
#else
constexpr int LANES = 8;
constexpr int CHANNELS = 2, PIXELS = 4;
#endif

typedef float vec __attribute__((vector_size(LANES * sizeof(float)), may_alias));

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

static inline int groups_of(int count) { return (count + LANES - 1) / LANES; }

// Memory for vectors, not cleared.
struct Vectors {
    explicit Vectors(size_t size) : at(new (std::align_val_t(64)) vec[size]) {}
    ~Vectors() { operator delete[](at, std::align_val_t(64)); }
    Vectors(const Vectors&) = delete;
    Vectors& operator=(const Vectors&) = delete;
    vec* const at;
};
