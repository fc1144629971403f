// A chain of layers, each a 3×3 convolution, a norm of every channel of every image, ReLU and perhaps 2×2 mean pooling
// (an odd last row or column is dropped). A group of images passes through all of them while it stays in the cache.

#include <vector>

#include "convolution.h"

extern "C" struct Block {
    int inputs, outputs, height, width, pooled;
    float epsilon;
    const float *weight, *scale, *shift;  // (outputs, inputs, 3, 3), (outputs), (outputs)
    float *dweight, *dscale, *dshift;     // their gradients
};

namespace {

Convolution convolution(const Block& b) { return {b.inputs, b.outputs, b.height, b.width, 3, 1, 1, 1}; }
int out_height(const Block& b) { return b.pooled ? b.height / 2 : b.height; }
int out_width(const Block& b) { return b.pooled ? b.width / 2 : b.width; }
size_t plane(const Block& b) { return size_t(b.height) * b.width; }
size_t result(const Block& b) { return size_t(b.outputs) * out_height(b) * out_width(b); }
size_t weights(const Block& b) { return size_t(b.outputs) * (b.inputs * 9 + 2); }

struct Room {  // what a group leaves behind in one block: the framed input, the convolution, its moments
    vec *in, *y, *mean, *rate;
};

size_t room_size(const Block* blocks, int depth) {
    size_t size = 0;
    for (const Block* b = blocks; b < blocks + depth; b++)
        size += b->inputs * convolution(*b).framed() + b->outputs * (plane(*b) + 2);
    return size;
}

std::vector<Room> rooms_in(const Block* blocks, int depth, vec* memory) {
    std::vector<Room> rooms;
    for (const Block* b = blocks; b < blocks + depth; b++) {
        vec* y = memory + b->inputs * convolution(*b).framed();
        vec* mean = y + b->outputs * plane(*b);
        rooms.push_back({memory, y, mean, mean + b->outputs});
        memory = mean + 2 * b->outputs;
    }
    return rooms;
}

// Mean and 1 / sqrt(variance + ε) of each channel.
void moments(const Block& b, const Room& room) {
    const size_t n = plane(b);
    for (int o = 0; o < b.outputs; o++) {
        const vec* y = room.y + o * n;
        vec sum[4] = {}, squares[4] = {};
        for (size_t k = 0; k < n; k++) sum[k & 3] += y[k];
        const vec mean = (sum[0] + sum[1] + sum[2] + sum[3]) / float(n);
        for (size_t k = 0; k < n; k++) squares[k & 3] += (y[k] - mean) * (y[k] - mean);
        vec rate = (squares[0] + squares[1] + squares[2] + squares[3]) / float(n) + b.epsilon;
        for (int lane = 0; lane < LANES; lane++) rate[lane] = 1 / std::sqrt(rate[lane]);
        room.mean[o] = mean;
        room.rate[o] = rate;
    }
}

// Norm, ReLU and pooling into planes of the given size and row length.
template <bool POOLED>
void activate(const Block& b, const Room& room, vec* out, size_t out_plane, int out_row) {
    for (int o = 0; o < b.outputs; o++, out += out_plane) {
        const vec gain = room.rate[o] * b.scale[o], level = b.shift[o] - room.mean[o] * gain;
        const vec* y = room.y + o * plane(b);
        auto value = [&](size_t k) {
            const vec z = y[k] * gain + level;
            return z < 0 ? vec{} : z;  // NaN stays NaN
        };
        for (int r = 0; r < out_height(b); r++)
            for (int c = 0; c < out_width(b); c++)
                if (POOLED) {
                    const size_t k = size_t(2 * r) * b.width + 2 * c;
                    out[r * out_row + c] = (value(k) + value(k + 1) + value(k + b.width) + value(k + b.width + 1)) * 0.25f;
                } else {
                    out[r * out_row + c] = value(size_t(r) * b.width + c);
                }
    }
}

// From the gradient at the block's output to the one at its convolution; adds those of scale and shift.
template <bool POOLED>
void deactivate(const Block& b, const Room& room, const vec* dout, vec* dy, float* dscale, float* dshift) {
    constexpr int STEP = POOLED ? 2 : 1;
    constexpr float SHARE = POOLED ? 0.25f : 1.0f;
    const int rows = out_height(b), cols = out_width(b);
    const float n = float(plane(b));
    for (int o = 0; o < b.outputs; o++, dout += size_t(rows) * cols, dy += plane(b)) {
        const vec mean = room.mean[o], rate = room.rate[o], gain = rate * b.scale[o], level = b.shift[o] - mean * gain;
        const vec* y = room.y + o * plane(b);
        vec sum = {}, with = {};
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < cols; c++) {
                const vec d = dout[r * cols + c];
                for (int k = 0; k < STEP * STEP; k++) {
                    const vec at = y[(r * STEP + k / STEP) * b.width + c * STEP + k % STEP];
                    const vec pulled = at * gain + level > 0 ? d : vec{};
                    sum += pulled;
                    with += pulled * at;
                }
            }
        sum *= SHARE;
        with = (with * SHARE - sum * mean) * rate;
        dshift[o] += total(sum);
        dscale[o] += total(with);
        // dy = gain (d − Σd / n − x̂ Σdx̂ / n) with x̂ = (y − mean) rate, as a line in y
        const vec slope = -gain * rate * with / n, start = -gain * sum / n - slope * mean, weight = gain * SHARE;
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < cols; c++) {
                const vec d = weight * dout[r * cols + c];
                for (int k = 0; k < STEP * STEP; k++) {
                    const size_t at = (r * STEP + k / STEP) * b.width + c * STEP + k % STEP;
                    dy[at] = slope * y[at] + start + (y[at] * gain + level > 0 ? d : vec{});
                }
            }
        for (int r = 0; r < b.height; r++)  // what pooling dropped
            for (int c = r < rows * STEP ? cols * STEP : 0; c < b.width; c++)
                dy[r * b.width + c] = slope * y[r * b.width + c] + start;
    }
}

std::vector<Weights> prepared(const Block* blocks, int depth, bool turned) {
    std::vector<Weights> all_weights;
    for (const Block* b = blocks; b < blocks + depth; b++) all_weights.emplace_back(convolution(*b), b->weight, turned);
    return all_weights;
}

}  // namespace

extern "C" {

// Floats of `saved`, 64-byte aligned.
size_t dwmr_features_saved(const Block* blocks, int depth, int groups) { return groups * room_size(blocks, depth) * LANES; }

// images to features (count, outputs · out_height · out_width); `saved` keeps what the way back needs.
void dwmr_features(const Block* blocks, int depth, const float* images, int count, float* saved, float* features, int threads) {
    const auto weight = prepared(blocks, depth, false);
    const Block& last = blocks[depth - 1];
    const size_t size = result(last);
#pragma omp parallel num_threads(threads)
    {
        const Block& first = blocks[0];
        const size_t pixels = first.inputs * plane(first);
        Vectors start(pixels), end(size);
#pragma omp for schedule(static)
        for (int g = 0; g < groups_of(count); g++) {
            const auto rooms = rooms_in(blocks, depth, reinterpret_cast<vec*>(saved) + room_size(blocks, depth) * g);
            const int known = std::min(LANES, count - g * LANES);
            gather(images + g * LANES * pixels, pixels, pixels, known, start.at);
            frame(first.inputs, first.height, first.width, 1, start.at, rooms[0].in);
            for (int k = 0; k < depth; k++) {
                const Block& b = blocks[k];
                convolve(weight[k], rooms[k].in, nullptr, rooms[k].y);
                moments(b, rooms[k]);
                const auto activated = b.pooled ? activate<true> : activate<false>;
                if (k + 1 < depth) {
                    const Convolution next = convolution(blocks[k + 1]);
                    clear_frame(next, rooms[k + 1].in);
                    activated(b, rooms[k], rooms[k + 1].in + next.cols() + 1, next.framed(), next.cols());
                } else {
                    activated(b, rooms[k], end.at, size / b.outputs, out_width(b));
                }
            }
            scatter(end.at, size, size, known, features + g * LANES * size);
        }
    }
}

// Adds to every block's gradients, from those of the features and what `dwmr_features` kept.
void dwmr_features_back(const Block* blocks, int depth, int count, float* saved, const float* dfeatures, int threads) {
    const auto weight = prepared(blocks, depth, true);
    const size_t size = result(blocks[depth - 1]);
    size_t convolved = 0, framed = 0, given = size, parameters = 0;
    for (const Block* b = blocks; b < blocks + depth; b++) {
        convolved = std::max(convolved, b->outputs * plane(*b));
        framed = std::max(framed, b->outputs * convolution(*b).framed());
        given = std::max(given, b->inputs * plane(*b));
        parameters += weights(*b);
    }
    std::vector<float> sums(threads * parameters);
#pragma omp parallel num_threads(threads)
    {
        Vectors dy(convolved), dy_framed(framed), dout(given);
#pragma omp for schedule(static)
        for (int g = 0; g < groups_of(count); g++) {
            const auto rooms = rooms_in(blocks, depth, reinterpret_cast<vec*>(saved) + room_size(blocks, depth) * g);
            gather(dfeatures + g * LANES * size, size, size, std::min(LANES, count - g * LANES), dout.at);
            float* sum = sums.data() + (omp_get_thread_num() + 1) * parameters;
            for (int k = depth - 1; k >= 0; k--) {
                const Block& b = blocks[k];
                const Convolution c = convolution(b);
                sum -= weights(b);
                (b.pooled ? deactivate<true> : deactivate<false>)(b, rooms[k], dout.at, dy.at, sum + c.weights(), sum + c.weights() + b.outputs);
                weigh(c, rooms[k].in, dy.at, sum);
                if (k > 0) {
                    frame(b.outputs, b.height, b.width, 1, dy.at, dy_framed.at);
                    convolve(weight[k], dy_framed.at, nullptr, dout.at);
                }
            }
        }
    }
    const float* sum = sums.data();
    for (int t = 0; t < threads; t++)
        for (const Block* b = blocks; b < blocks + depth; b++) {
            for (size_t w = 0; w < convolution(*b).weights(); w++) b->dweight[w] += *sum++;
            for (int o = 0; o < b->outputs; o++) b->dscale[o] += *sum++;
            for (int o = 0; o < b->outputs; o++) b->dshift[o] += *sum++;
        }
}
}
