// A chain of steps on small images, forward and back. A step is a convolution, then perhaps a norm with ReLU, either with
// the step's own input added before the ReLU or with 2×2 mean pooling after it (an odd last row or column is dropped).
// A group of images passes through the steps while it stays in a core's cache; the threads meet only where a batch norm
// needs the sums of all.

#include <vector>

#include "convolution.h"

enum Norm { NONE, OF_IMAGE, OF_BATCH, GIVEN };  // by the moments of each image, of the batch, or by given ones

extern "C" struct Step {
    Convolution conv;
    int norm, residual, pooled;  // residual only with moments of a batch or given ones, pooled only with an image's
    float epsilon;
    const float *weight, *bias, *scale, *shift;  // bias may be null; scale and shift only if normed
    float *mean, *variance;                      // given, or of this batch (out)
    float *dweight, *dbias, *dscale, *dshift;    // gradients, added to
};

namespace {

size_t in_size(const Step& s) { return size_t(s.conv.inputs) * s.conv.height * s.conv.width; }
size_t convolved_size(const Step& s) { return s.conv.outputs * s.conv.out_plane(); }
size_t weights(const Step& s) { return s.conv.weights() + 3 * s.conv.outputs; }  // with bias, scale and shift

struct Room {  // what a group leaves behind in a step: the framed input, the convolution, its moments
    vec *in, *y, *mean, *rate;
};

size_t room_size(const Step* steps, int depth) {
    size_t size = 0;
    for (const Step* s = steps; s < steps + depth; s++)
        size += s->conv.inputs * s->conv.framed() + convolved_size(*s) + 2 * s->conv.outputs;
    return size;
}

std::vector<Room> rooms_in(const Step* steps, int depth, vec* memory) {
    std::vector<Room> rooms;
    for (const Step* s = steps; s < steps + depth; s++) {
        vec* y = memory + s->conv.inputs * s->conv.framed();
        vec* mean = y + convolved_size(*s);
        rooms.push_back({memory, y, mean, mean + s->conv.outputs});
        memory = mean + 2 * s->conv.outputs;
    }
    return rooms;
}

// Where groups wait for each other: 0, the steps after a batch norm, and `depth` + 1, as leaving the chain is a step, too.
std::vector<int> stages_of(const Step* steps, int depth) {
    std::vector<int> stages = {0};
    for (int k = 0; k < depth; k++)
        if (steps[k].norm == OF_BATCH) stages.push_back(k + 1);
    stages.push_back(depth + 1);
    return stages;
}

size_t most_channels(const Step* steps, int depth) {
    return std::max_element(steps, steps + depth, [](auto& a, auto& b) { return a.conv.outputs < b.conv.outputs; })->conv.outputs;
}

template <class Term>
vec summed(size_t count, Term term) {
    vec sum[4] = {};
    for (size_t k = 0; k < count; k++) sum[k & 3] += term(k);
    return sum[0] + sum[1] + sum[2] + sum[3];
}

// Mean and 1 / sqrt(variance + ε) of each channel of each image.
void image_moments(const Step& s, const Room& room) {
    const size_t n = s.conv.out_plane();
    for (int o = 0; o < s.conv.outputs; o++) {
        const vec* y = room.y + o * n;
        const vec mean = summed(n, [&](size_t k) { return y[k]; }) / float(n);
        vec rate = summed(n, [&](size_t k) { return (y[k] - mean) * (y[k] - mean); }) / float(n) + s.epsilon;
        for (int lane = 0; lane < LANES; lane++) rate[lane] = 1 / std::sqrt(rate[lane]);
        room.mean[o] = mean;
        room.rate[o] = rate;
    }
}

// Mean and sum of squared deviations of each channel of one group, (channels, 2).
void group_moments(const Step& s, const Room& room, double* part) {
    const size_t n = s.conv.out_plane();
    for (int o = 0; o < s.conv.outputs; o++) {
        const vec* y = room.y + o * n;
        const float mean = total(summed(n, [&](size_t k) { return y[k]; })) / float(n * LANES);
        *part++ = mean;
        *part++ = total(summed(n, [&](size_t k) { return (y[k] - mean) * (y[k] - mean); }));
    }
}

// A batch's moments from those of its groups, (groups, channels, 2).
void batch_moments(const Step& s, int groups, const std::vector<double>& parts) {
    const double size = double(s.conv.out_plane()) * LANES;
    for (int o = 0; o < s.conv.outputs; o++) {
        double mean = 0, squares = 0;
        for (int g = 0; g < groups; g++) mean += parts[(size_t(g) * s.conv.outputs + o) * 2] / groups;
        for (int g = 0; g < groups; g++) {
            const double* part = &parts[(size_t(g) * s.conv.outputs + o) * 2];
            squares += part[1] + size * (part[0] - mean) * (part[0] - mean);
        }
        s.mean[o] = float(mean);
        s.variance[o] = float(squares / (size * groups));
    }
}

struct Normed {  // a channel before its ReLU
    const vec mean, rate, gain, level;
    const vec *y, *added;  // the latter may be null
    const int width, added_width;

    Normed(const Step& s, const Room& room, int o)
        : mean(room.mean[o]), rate(room.rate[o]), gain(rate * s.scale[o]), level(s.shift[o] - mean * gain),
          y(room.y + o * s.conv.out_plane()), added(s.residual ? room.in + o * s.conv.framed() + s.conv.corner() : nullptr),
          width(s.conv.out_width()), added_width(s.conv.cols()) {}

    vec alone(int at) const { return y[at] * gain + level; }
    vec operator()(int r, int c) const {
        const vec z = alone(r * width + c);
        return added ? z + added[r * added_width + c] : z;
    }
};

// Norm, residual, ReLU and pooling of SIDE × SIDE pixels, into planes of the given size and row length.
template <int SIDE>
void activate(const Step& s, const Room& room, vec* out, size_t out_plane, int out_row) {
    const int rows = s.conv.out_height() / SIDE, cols = s.conv.out_width() / SIDE;
    for (int o = 0; o < s.conv.outputs; o++, out += out_plane) {
        const Normed normed(s, room, o);
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < cols; c++) {
                vec sum = {};
                for (int k = 0; k < SIDE * SIDE; k++) {
                    const vec z = normed(r * SIDE + k / SIDE, c * SIDE + k % SIDE);
                    sum += z < 0 ? vec{} : z;  // NaN stays NaN
                }
                out[r * out_row + c] = sum / float(SIDE * SIDE);
            }
    }
}

// What a step gives to the next.
void leave(const Step& s, const Room& room, vec* out, size_t out_plane, int out_row) {
    if (s.norm == NONE) {
        const int width = s.conv.out_width();
        for (int o = 0; o < s.conv.outputs; o++)
            for (int r = 0; r < s.conv.out_height(); r++)
                std::memcpy(out + o * out_plane + r * out_row, room.y + o * s.conv.out_plane() + r * width, width * sizeof(vec));
        return;
    }
    for (int o = 0; s.norm != OF_IMAGE && o < s.conv.outputs; o++) {
        room.mean[o] = all(s.mean[o]);
        room.rate[o] = all(1 / std::sqrt(s.variance[o] + s.epsilon));
    }
    (s.pooled ? activate<2> : activate<1>)(s, room, out, out_plane, out_row);
}

// From the gradient at a step's output to the one at its convolution, normed by image; adds those of scale and shift.
template <int SIDE>
void deactivate(const Step& s, const Room& room, const vec* dout, vec* dy, float* dscale, float* dshift) {
    constexpr float SHARE = 1.0f / (SIDE * SIDE);
    const int height = s.conv.out_height(), width = s.conv.out_width(), rows = height / SIDE, cols = width / SIDE;
    const float n = float(s.conv.out_plane());
    for (int o = 0; o < s.conv.outputs; o++, dout += size_t(rows) * cols, dy += s.conv.out_plane()) {
        const Normed normed(s, room, o);
        vec sum = {}, with = {};
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < cols; c++) {
                const vec d = dout[r * cols + c];
                for (int k = 0; k < SIDE * SIDE; k++) {
                    const int at = (r * SIDE + k / SIDE) * width + c * SIDE + k % SIDE;
                    const vec pulled = normed.alone(at) > 0 ? d : vec{};
                    sum += pulled;
                    with += pulled * normed.y[at];
                }
            }
        sum *= SHARE;
        with = (with * SHARE - sum * normed.mean) * normed.rate;
        dshift[o] += total(sum);
        dscale[o] += total(with);
        // dy = gain (d − Σd / n − x̂ Σdx̂ / n) with x̂ = (y − mean) rate, as a line in y
        const vec slope = -normed.gain * normed.rate * with / n, start = -normed.gain * sum / n - slope * normed.mean;
        const vec weight = normed.gain * SHARE;
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < cols; c++) {
                const vec d = weight * dout[r * cols + c];
                for (int k = 0; k < SIDE * SIDE; k++) {
                    const int at = (r * SIDE + k / SIDE) * width + c * SIDE + k % SIDE;
                    dy[at] = slope * normed.y[at] + start + (normed.alone(at) > 0 ? d : vec{});
                }
            }
        for (int r = 0; r < height; r++)  // what pooling dropped
            for (int c = r < rows * SIDE ? cols * SIDE : 0; c < width; c++)
                dy[r * width + c] = slope * normed.y[r * width + c] + start;
    }
}

// Through the ReLU of a batch norm, in place; and of each channel Σd and Σdx̂, (channels, 2).
void rectify_back(const Step& s, const Room& room, vec* d, float* part) {
    const int height = s.conv.out_height(), width = s.conv.out_width();
    for (int o = 0; o < s.conv.outputs; o++) {
        const Normed normed(s, room, o);
        vec sum = {}, with = {};
        for (int r = 0; r < height; r++)
            for (int c = 0; c < width; c++, d++) {
                *d = normed(r, c) > 0 ? *d : vec{};
                sum += *d;
                with += *d * (normed.y[r * width + c] - normed.mean);
            }
        *part++ = total(sum);
        *part++ = total(with) * normed.rate[0];
    }
}

struct Line {  // dy = gain (d − Σd / n − x̂ Σdx̂ / n) as a line in y, of a channel of a batch norm
    float gain, slope, level;
};

// The lines of all channels from every group's sums, (groups, channels, 2); adds to the gradients of scale and shift.
std::vector<Line> lines_of(const Step& s, int groups, const std::vector<float>& parts) {
    std::vector<Line> lines;
    const double count = double(groups) * s.conv.out_plane() * LANES;
    for (int o = 0; o < s.conv.outputs; o++) {
        double sum = 0, with = 0;
        for (int g = 0; g < groups; g++) {
            sum += parts[(size_t(g) * s.conv.outputs + o) * 2];
            with += parts[(size_t(g) * s.conv.outputs + o) * 2 + 1];
        }
        const float rate = 1 / std::sqrt(s.variance[o] + s.epsilon), gain = s.scale[o] * rate;
        const float slope = float(-gain * rate * with / count);
        lines.push_back({gain, slope, float(-gain * sum / count) - slope * s.mean[o]});
        s.dscale[o] += float(with);
        s.dshift[o] += float(sum);
    }
    return lines;
}

}  // namespace

extern "C" {

int dwmr_lanes() { return LANES; }

// Fills in the sizes of all steps but the first, and of one more for the outputs. Returns the floats of a group's room.
size_t dwmr_chain_plan(Step* steps, int depth) {
    for (Step* s = steps; s < steps + depth; s++) {
        const int side = s->pooled ? 2 : 1;
        s[1].conv.inputs = s->conv.outputs;
        s[1].conv.height = s->conv.out_height() / side;
        s[1].conv.width = s->conv.out_width() / side;
    }
    return room_size(steps, depth) * LANES;
}

// images to outputs. `saved` has a room for each group, for the way back; or one for each thread, if there are fewer.
void dwmr_chain(const Step* steps, int depth, const float* images, int count, float* saved, int rooms, float* out, int threads) {
    std::vector<Weights> weight;
    for (const Step* s = steps; s < steps + depth; s++) weight.emplace_back(s->conv, s->weight, false);
    const auto stages = stages_of(steps, depth);
    const size_t first = in_size(steps[0]), last = in_size(steps[depth]), size = room_size(steps, depth);
    const int groups = groups_of(count);
    std::vector<double> parts(2 * groups * most_channels(steps, depth));
#pragma omp parallel num_threads(threads)
    {
        Vectors ends(std::max(first, last));
        for (size_t stage = 0; stage + 1 < stages.size(); stage++) {
            const int begin = stages[stage], end = stages[stage + 1];
#pragma omp for schedule(static)
            for (int g = 0; g < groups; g++) {
                const int own = rooms < groups ? omp_get_thread_num() : g, known = std::min(LANES, count - g * LANES);
                const auto room = rooms_in(steps, depth, reinterpret_cast<vec*>(saved) + size * own);
                for (int k = begin; k < std::min(end, depth); k++) {
                    const Convolution& c = steps[k].conv;
                    if (k) {
                        clear_frame(c, room[k].in);
                        leave(steps[k - 1], room[k - 1], room[k].in + c.corner(), c.framed(), c.cols());
                    } else {
                        gather(images + g * LANES * first, first, first, known, c.padding ? ends.at : room[k].in);
                        if (c.padding) frame(c, ends.at, room[k].in);
                    }
                    convolve(weight[k], room[k].in, steps[k].bias, room[k].y);
                    if (steps[k].norm == OF_IMAGE) image_moments(steps[k], room[k]);
                    if (steps[k].norm == OF_BATCH) group_moments(steps[k], room[k], &parts[2 * g * c.outputs]);
                }
                if (end > depth) {
                    const Convolution& c = steps[depth].conv;
                    leave(steps[depth - 1], room[depth - 1], ends.at, size_t(c.height) * c.width, c.width);
                    scatter(ends.at, last, last, known, out + g * LANES * last);
                }
            }
            if (end > depth) continue;
#pragma omp single
            batch_moments(steps[end - 1], groups, parts);
        }
    }
}

// From the gradient of the outputs to those of every step's parameters, and of the images if dimages is not null.
void dwmr_chain_back(const Step* steps, int depth, int count, float* saved, const float* dout, float* dimages, int threads) {
    const auto stages = stages_of(steps, depth);
    const size_t first = in_size(steps[0]), last = in_size(steps[depth]), size = room_size(steps, depth);
    const int groups = groups_of(count);
    std::vector<std::unique_ptr<Weights>> back;
    std::vector<size_t> place;  // of a step's parameters among all
    size_t convolved = 0, framed = 0, largest = last, parameters = 0;
    for (const Step* s = steps; s < steps + depth; s++) {
        const bool gathered = s->conv.stride == 1 && s->conv.turned().padding >= 0;
        back.emplace_back(gathered ? new Weights(s->conv, s->weight, true) : nullptr);
        place.push_back(parameters);
        parameters += weights(*s);
        convolved = std::max(convolved, convolved_size(*s));
        if (gathered) framed = std::max(framed, s->conv.outputs * s->conv.turned().framed());
        largest = std::max(largest, in_size(*s));
    }
    const bool waiting = stages.size() > 2;
    Vectors all_d((waiting ? groups : threads) * largest);  // the gradient at the place that a group has reached
    std::vector<float> sums(threads * parameters), parts(2 * groups * most_channels(steps, depth));
    std::vector<Line> lines;
#pragma omp parallel num_threads(threads)
    {
        const int me = omp_get_thread_num();
        Vectors dy(convolved), dy_framed(framed), other(largest);
        for (size_t stage = stages.size() - 1; stage-- > 0;) {
            const int begin = stages[stage], end = stages[stage + 1];
#pragma omp single
            if (end <= depth) lines = lines_of(steps[end - 1], groups, parts);
#pragma omp for schedule(static)
            for (int g = 0; g < groups; g++) {
                const int known = std::min(LANES, count - g * LANES);
                const auto room = rooms_in(steps, depth, reinterpret_cast<vec*>(saved) + size * g);
                vec* d = all_d.at + (waiting ? g : me) * largest;
                if (end > depth) gather(dout + g * LANES * last, last, last, known, d);
                for (int k = std::min(end, depth) - 1; k >= begin; k--) {
                    const Step& s = steps[k];
                    const Convolution& c = s.conv;
                    const size_t plane = c.out_plane();
                    float* dweight = &sums[me * parameters + place[k]];
                    float *dbias = dweight + c.weights(), *dscale = dbias + c.outputs, *dshift = dscale + c.outputs;
                    if (s.norm == OF_IMAGE) (s.pooled ? deactivate<2> : deactivate<1>)(s, room[k], d, dy.at, dscale, dshift);
                    if (s.norm == NONE) std::memcpy(dy.at, d, convolved_size(s) * sizeof(vec));
                    for (int o = 0; s.norm == OF_BATCH && o < c.outputs; o++)
                        for (size_t p = o * plane; p < (o + 1) * plane; p++)
                            dy.at[p] = lines[o].gain * d[p] + (lines[o].slope * room[k].y[p] + lines[o].level);
                    weigh(c, room[k].in, dy.at, dweight);
                    for (int o = 0; s.bias && o < c.outputs; o++) {
                        vec sum = {};
                        for (size_t p = 0; p < plane; p++) sum += dy.at[o * plane + p];
                        dbias[o] += total(sum);
                    }
                    if (!k && !dimages) break;
                    vec* to = s.residual ? other.at : d;
                    if (back[k]) {
                        frame(c.turned(), dy.at, dy_framed.at);
                        convolve(*back[k], dy_framed.at, nullptr, to);
                    } else {
                        spread(c, dy.at, s.weight, to);
                    }
                    for (size_t p = 0; s.residual && p < in_size(s); p++) d[p] += other.at[p];
                }
                if (begin) rectify_back(steps[begin - 1], room[begin - 1], d, &parts[2 * g * steps[begin - 1].conv.outputs]);
                else if (dimages) scatter(d, first, first, known, dimages + g * LANES * first);
            }
        }
    }
    for (int t = 0; t < threads; t++) {  // in their order, so that the sums do not depend on who was first
        const float* part = &sums[t * parameters];
        for (const Step* s = steps; s < steps + depth; s++) {
            for (size_t w = 0; w < s->conv.weights(); w++) s->dweight[w] += *part++;
            for (float* to : {s->dbias, s->dscale, s->dshift})
                for (int o = 0; o < s->conv.outputs; o++, part++)
                    if (to) to[o] += *part;
        }
    }
}
}
