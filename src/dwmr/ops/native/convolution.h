// Convolutions of one group of images: forward, to the input, to the weights.

#pragma once

#include "lanes.h"

struct Convolution {
    int inputs, outputs, height, width, kernel, stride, dilation, padding;

    int reach() const { return dilation * (kernel - 1); }
    int rows() const { return height + 2 * padding; }  // of the input with its frame of zeros
    int cols() const { return width + 2 * padding; }
    size_t framed() const { return size_t(rows()) * cols(); }
    size_t corner() const { return size_t(padding) * (cols() + 1); }  // where the input begins in its frame
    int out_height() const { return (rows() - reach() - 1) / stride + 1; }
    int out_width() const { return (cols() - reach() - 1) / stride + 1; }
    size_t out_plane() const { return size_t(out_height()) * out_width(); }
    int taps() const { return kernel * kernel; }
    size_t weights() const { return size_t(outputs) * inputs * taps(); }
    // The same sums read the other way, for a stride of 1: from the outputs' gradients to the inputs'.
    Convolution turned() const {
        return {outputs, inputs, out_height(), out_width(), kernel, 1, dilation, reach() - padding};
    }
};

constexpr int MOST_TAPS = 64;
constexpr int CHANNELS = SUMS / 2, PIXELS = 2;  // sums of neighbouring pixels share weights, those of channels share inputs
constexpr int TILE_CHANNELS = SUMS / 4;         // a row of a tile has four sums a channel

struct Taps {  // where each tap of the kernel lies, seen from its first
    ptrdiff_t at[MOST_TAPS];
    explicit Taps(const Convolution& c) {
        for (int t = 0; t < c.taps(); t++)
            at[t] = ptrdiff_t(t / c.kernel * c.dilation) * c.cols() + t % c.kernel * c.dilation;
    }
};

// Weights of a convolution in the order its sums read them. `turned` prepares those of Convolution::turned.
struct Weights {
    Convolution c;
    bool by_tiles;  // of 2×2 pixels, by Winograd's identity
    std::unique_ptr<float[]> values;

    Weights(const Convolution& of, const float* weight, bool turned)
        : c(turned ? of.turned() : of),
          by_tiles(c.kernel == 3 && c.stride == 1 && c.dilation == 1 && c.inputs > 4),
          values(new float[size_t(c.outputs) * c.inputs * (by_tiles ? 16 : c.taps())]) {
        float* to = values.get();
        const int taps = c.taps();
        auto value = [&](int o, int i, int t) {
            return turned ? weight[(size_t(i) * c.outputs + o) * taps + taps - 1 - t]
                          : weight[(size_t(o) * c.inputs + i) * taps + t];
        };
        // Blocks of outputs, the last perhaps smaller: [input][tap][output], or [row][input][column][output].
        const int block = by_tiles ? TILE_CHANNELS : CHANNELS;
        for (int first = 0; first < c.outputs; first += block) {
            const int end = std::min(first + block, c.outputs);
            for (int row = 0; row < (by_tiles ? 4 : 1); row++)
                for (int i = 0; i < c.inputs; i++)
                    for (int t = 0; t < (by_tiles ? 4 : taps); t++)
                        for (int o = first; o < end; o++)
                            *to++ = by_tiles ? transformed([&](int tap) { return value(o, i, tap); }, row, t) : value(o, i, t);
        }
    }

   private:
    // One entry of G w Gᵀ, the 3×3 kernel as the tiles meet it.
    template <class Kernel>
    static float transformed(Kernel w, int row, int col) {
        static constexpr float G[4][3] = {{1, 0, 0}, {0.5f, 0.5f, 0.5f}, {0.5f, -0.5f, 0.5f}, {0, 0, 1}};
        float sum = 0;
        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++) sum += G[row][a] * w(3 * a + b) * G[col][b];
        return sum;
    }
};

// O channels at P neighbouring pixels.
template <int O, int P>
static inline void strip(const Convolution& c, const Taps& taps, const vec* in, const float* w, const float* bias, vec* out,
                         size_t out_plane) {
    vec sum[O][P];
    for (int o = 0; o < O; o++)
        for (int p = 0; p < P; p++) sum[o][p] = bias ? all(bias[o]) : vec{};
    for (int i = 0; i < c.inputs; i++, in += c.framed())
        for (int t = 0; t < c.taps(); t++, w += O) {
            const vec* x = in + taps.at[t];
            for (int o = 0; o < O; o++) {
                const vec k = all(w[o]);
                for (int p = 0; p < P; p++) sum[o][p] += k * x[p * c.stride];
            }
        }
    for (int o = 0; o < O; o++)
        for (int p = 0; p < P; p++) out[o * out_plane + p] = sum[o][p];
}

template <int O>
static void channels(const Convolution& c, const Taps& taps, const vec* in, const float* w, const float* bias, vec* out) {
    for (int y = 0; y < c.out_height(); y++) {
        const vec* row = in + size_t(y) * c.stride * c.cols();
        int x = 0;
        for (; x + PIXELS <= c.out_width(); x += PIXELS, out += PIXELS)
            strip<O, PIXELS>(c, taps, row + x * c.stride, w, bias, out, c.out_plane());
        for (; x < c.out_width(); x++, out++) strip<O, 1>(c, taps, row + x * c.stride, w, bias, out, c.out_plane());
    }
}

// Winograd's F(2×2, 3×3): a tile of 2×2 outputs from 4×4 inputs takes 16 products a channel pair instead of 36.
// The input's part, Bᵀ d B, as [row][input][column]; what lies outside the frame counts as zero.
static inline void tile_in(const Convolution& c, const vec* in, int y, int x, vec* v) {
    const bool whole = y + 4 <= c.rows() && x + 4 <= c.cols();
    for (int i = 0; i < c.inputs; i++, in += c.framed()) {
        vec d[4][4], t[4][4];
        for (int a = 0; a < 4; a++)
            for (int b = 0; b < 4; b++)
                d[a][b] = whole || (y + a < c.rows() && x + b < c.cols()) ? in[size_t(y + a) * c.cols() + x + b] : vec{};
        for (int b = 0; b < 4; b++) {
            t[0][b] = d[0][b] - d[2][b];
            t[1][b] = d[1][b] + d[2][b];
            t[2][b] = d[2][b] - d[1][b];
            t[3][b] = d[1][b] - d[3][b];
        }
        for (int a = 0; a < 4; a++) {
            vec* to = v + (size_t(a) * c.inputs + i) * 4;
            to[0] = t[a][0] - t[a][2];
            to[1] = t[a][1] + t[a][2];
            to[2] = t[a][2] - t[a][1];
            to[3] = t[a][1] - t[a][3];
        }
    }
}

// The products and Aᵀ m A for O channels: out[o] is the tile's first pixel in plane o.
template <int O>
static void tile_out(const Convolution& c, const vec* v, const float* w, const float* bias, vec* out, bool right, bool below) {
    vec part[4][O][2];
    for (int row = 0; row < 4; row++) {
        vec m[4][O] = {};
        for (int i = 0; i < c.inputs; i++, v += 4)
            for (int col = 0; col < 4; col++, w += O)
                for (int o = 0; o < O; o++) m[col][o] += w[o] * v[col];
        for (int o = 0; o < O; o++) {
            part[row][o][0] = m[0][o] + m[1][o] + m[2][o];
            part[row][o][1] = m[1][o] - m[2][o] - m[3][o];
        }
    }
    for (int o = 0; o < O; o++, out += c.out_plane())
        for (int x = 0; x <= right; x++) {
            const vec start = bias ? all(bias[o]) : vec{};
            out[x] = start + part[0][o][x] + part[1][o][x] + part[2][o][x];
            if (below) out[c.out_width() + x] = start + part[1][o][x] - part[2][o][x] - part[3][o][x];
        }
}

static inline void convolve_tiles(const Weights& weights, const vec* in, const float* bias, vec* out) {
    const Convolution& c = weights.c;
    Vectors v(size_t(16) * c.inputs);
    for (int y = 0; y < c.out_height(); y += 2)
        for (int x = 0; x < c.out_width(); x += 2) {
            tile_in(c, in, y, x, v.at);
            const bool right = x + 1 < c.out_width(), below = y + 1 < c.out_height();
            for (int o = 0; o < c.outputs; o += TILE_CHANNELS) {
                const float* w = weights.values.get() + size_t(o) * c.inputs * 16;
                const float* b = bias ? bias + o : nullptr;
                vec* to = out + o * c.out_plane() + size_t(y) * c.out_width() + x;
                switch (std::min(TILE_CHANNELS, c.outputs - o)) {
                    case 1: tile_out<1>(c, v.at, w, b, to, right, below); break;
                    case 2: tile_out<2>(c, v.at, w, b, to, right, below); break;
                    case 3: tile_out<3>(c, v.at, w, b, to, right, below); break;
                    default: tile_out<4>(c, v.at, w, b, to, right, below);
                }
            }
        }
}

// in (inputs, rows, cols) with its frame, out (outputs, out_height, out_width); bias may be null.
static inline void convolve(const Weights& weights, const vec* in, const float* bias, vec* out) {
    if (weights.by_tiles) return convolve_tiles(weights, in, bias, out);
    const Convolution& c = weights.c;
    const Taps taps(c);
    for (int o = 0; o < c.outputs; o += CHANNELS) {
        const float* w = weights.values.get() + size_t(o) * c.inputs * c.taps();
        const float* b = bias ? bias + o : nullptr;
        vec* to = out + o * c.out_plane();
        using Kernel = void (*)(const Convolution&, const Taps&, const vec*, const float*, const float*, vec*);
        constexpr Kernel kernels[] = {channels<1>, channels<2>, channels<3>, channels<4>,
                                      channels<5>, channels<6>, channels<7>, channels<8>};
        kernels[std::min(CHANNELS, c.outputs - o) - 1](c, taps, in, w, b, to);
    }
}

// The gradient at the unframed input for any stride: each output's gradient goes back along its taps.
static inline void spread(const Convolution& c, const vec* dout, const float* weight, vec* din) {
    // Patches side by side meet every input once, and nothing has to be summed.
    const bool once = c.stride == c.kernel && c.dilation == 1 && !c.padding && c.height % c.stride == 0 && c.width % c.stride == 0;
    if (!once) std::memset(din, 0, size_t(c.inputs) * c.height * c.width * sizeof(vec));
    for (int i = 0; i < c.inputs; i++)
        for (int t = 0; t < c.taps(); t++)
            for (int y = 0; y < c.out_height(); y++) {
                const int r = y * c.stride + t / c.kernel * c.dilation - c.padding;
                if (r < 0 || r >= c.height) continue;
                for (int x = 0; x < c.out_width(); x++) {
                    const int q = x * c.stride + t % c.kernel * c.dilation - c.padding;
                    if (q < 0 || q >= c.width) continue;
                    vec sum = {};
                    for (int o = 0; o < c.outputs; o++)
                        sum += weight[(size_t(o) * c.inputs + i) * c.taps() + t] * dout[o * c.out_plane() + y * c.out_width() + x];
                    vec& to = din[(size_t(i) * c.height + r) * c.width + q];
                    to = once ? sum : to + sum;
                }
            }
}

// Sums over pixels and images of O outputs' gradients times one input, at T taps.
template <int O, int T>
static void weigh_taps(const Convolution& c, const ptrdiff_t* taps, const vec* in, const vec* dout, float* dweight) {
    vec sum[O][T] = {};
    for (int y = 0; y < c.out_height(); y++) {
        const vec* x = in + size_t(y) * c.stride * c.cols();
        const vec* d = dout + size_t(y) * c.out_width();
        for (int p = 0; p < c.out_width(); p++, x += c.stride) {
            vec g[O];
            for (int o = 0; o < O; o++) g[o] = d[o * c.out_plane() + p];
            for (int t = 0; t < T; t++) {
                const vec v = x[taps[t]];
                for (int o = 0; o < O; o++) sum[o][t] += g[o] * v;
            }
        }
    }
    for (int o = 0; o < O; o++)
        for (int t = 0; t < T; t++) dweight[size_t(o) * c.inputs * c.taps() + t] += total(sum[o][t]);
}

template <int O>
static void weigh_outputs(const Convolution& c, const Taps& taps, const vec* in, const vec* dout, float* dweight) {
    using Sums = void (*)(const Convolution&, const ptrdiff_t*, const vec*, const vec*, float*);
    constexpr Sums sums[] = {weigh_taps<O, 1>, weigh_taps<O, 2>, weigh_taps<O, 3>, weigh_taps<O, 4>, weigh_taps<O, 5>,
                             weigh_taps<O, 6>, weigh_taps<O, 7>, weigh_taps<O, 8>, weigh_taps<O, 9>};
    for (int i = 0; i < c.inputs; i++)
        for (int t = 0; t < c.taps(); t += 9)
            sums[std::min(9, c.taps() - t) - 1](c, taps.at + t, in + i * c.framed(), dout, dweight + i * c.taps() + t);
}

// dweight (outputs, inputs, taps) += its gradient; in with its frame, dout without.
static inline void weigh(const Convolution& c, const vec* in, const vec* dout, float* dweight) {
    const Taps taps(c);
    constexpr int pair = SUMS / 8;
    int o = 0;
    for (; o + pair <= c.outputs; o += pair)
        weigh_outputs<pair>(c, taps, in, dout + o * c.out_plane(), dweight + size_t(o) * c.inputs * c.taps());
    for (; o < c.outputs; o++)
        weigh_outputs<1>(c, taps, in, dout + o * c.out_plane(), dweight + size_t(o) * c.inputs * c.taps());
}

// Zeros around planes (inputs, height, width) that lie in a frame.
static inline void clear_frame(const Convolution& c, vec* out) {
    const size_t cols = c.cols(), edge = c.padding * cols;
    for (int k = 0; k < c.inputs; k++, out += c.framed()) {
        std::memset(out, 0, edge * sizeof(vec));
        for (vec* row = out + edge; row < out + edge + c.height * cols; row += cols)
            for (int p = 0; p < c.padding; p++) row[p] = row[cols - 1 - p] = vec{};
        std::memset(out + c.framed() - edge, 0, edge * sizeof(vec));
    }
}

// Such planes into the middle of a frame of zeros.
static inline void frame(const Convolution& c, const vec* in, vec* out) {
    clear_frame(c, out);
    for (int k = 0; k < c.inputs; k++, out += c.framed())
        for (int r = 0; r < c.height; r++, in += c.width)
            std::memcpy(out + c.corner() + r * c.cols(), in, c.width * sizeof(vec));
}
