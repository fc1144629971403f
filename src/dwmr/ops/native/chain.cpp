// A chain of steps on small images, forward and back: a convolution with bias, then perhaps batch norm with ReLU, and
// with the step's own input added before the ReLU. Each thread keeps its groups of images through all steps, so what a
// step wrote is still in that core's cache; the threads meet only where a batch norm needs the sums of all.

#include <vector>

#include "convolution.h"

extern "C" struct Step {
    Convolution conv;
    int normed, residual;
    float epsilon;
    const float *weight, *bias, *scale, *shift;  // bias may be null; scale and shift only if normed
    const float *running_mean, *running_variance;
    float *dweight, *dbias, *dscale, *dshift;  // gradients, added to
    float *mean, *variance;                    // out: of this batch, if normed
};

namespace {

size_t in_size(const Step& s) { return size_t(s.conv.inputs) * s.conv.height * s.conv.width; }
size_t out_size(const Step& s) { return s.conv.outputs * s.conv.out_plane(); }
size_t weights(const Step& s) { return s.conv.weights() + 3 * s.conv.outputs; }  // with bias, scale and shift

size_t largest(const Step* steps, int depth) {
    size_t size = 0;
    for (const Step* s = steps; s < steps + depth; s++) size = std::max({size, in_size(*s), out_size(*s)});
    return size;
}

// Where a step's convolution and output of all groups lie in what a pass keeps.
struct Kept {
    vec *y, *out;
};

std::vector<Kept> kept_in(const Step* steps, int depth, int groups, vec* memory) {
    std::vector<Kept> all_kept;
    for (const Step* s = steps; s < steps + depth; s++) {
        vec* out = s->normed ? memory + groups * out_size(*s) : memory;
        all_kept.push_back({memory, out});
        memory = out + groups * out_size(*s);
    }
    return all_kept;
}

// A step's input with its frame.
const vec* framed(const Step& s, const vec* in, vec* room) {
    if (!s.conv.padding) return in;
    frame(s.conv.inputs, s.conv.height, s.conv.width, s.conv.padding, in, room);
    return room;
}

size_t framed_size(const Step* steps, int depth) {
    size_t size = 0;
    for (const Step* s = steps; s < steps + depth; s++)
        size = std::max({size, s->conv.inputs * s->conv.framed(), s->conv.outputs * s->conv.turned().framed()});
    return size;
}

// out = ReLU(gain · y + level + residual), the residual perhaps null.
void rectify(int channels, size_t plane, const vec* y, const vec* residual, const float* gain, const float* level, vec* out) {
    for (int k = 0; k < channels; k++)
        for (size_t p = k * plane; p < (k + 1) * plane; p++) {
            vec z = y[p] * gain[k] + level[k];
            if (residual) z += residual[p];
            out[p] = z < 0 ? vec{} : z;  // NaN stays NaN
        }
}

struct Norm {  // of one step and batch
    std::vector<float> mean, rate, gain, level;

    Norm(const Step& s, const float* batch_mean, const float* batch_variance) {
        for (int k = 0; k < s.conv.outputs; k++) {
            mean.push_back(batch_mean[k]);
            rate.push_back(1 / std::sqrt(batch_variance[k] + s.epsilon));
            gain.push_back(s.scale[k] * rate[k]);
            level.push_back(s.shift[k] - mean[k] * gain[k]);
        }
    }
};

// Mean and sum of squared deviations of one group's channel.
void moments(const vec* y, size_t plane, double* mean, double* squares) {
    vec sum[4] = {}, square[4] = {};
    for (size_t p = 0; p < plane; p++) sum[p & 3] += y[p];
    const float middle = total(sum[0] + sum[1] + sum[2] + sum[3]) / float(plane * LANES);
    for (size_t p = 0; p < plane; p++) square[p & 3] += (y[p] - middle) * (y[p] - middle);
    *mean = middle;
    *squares = total(square[0] + square[1] + square[2] + square[3]);
}

// Those of all groups from each group's, (groups, channels, 2).
void pool(const std::vector<double>& parts, int groups, int channels, size_t plane, float* mean, float* variance) {
    const double size = double(plane) * LANES;
    for (int k = 0; k < channels; k++) {
        double middle = 0, squares = 0;
        for (int g = 0; g < groups; g++) middle += parts[(size_t(g) * channels + k) * 2] / groups;
        for (int g = 0; g < groups; g++) {
            const double* part = &parts[(size_t(g) * channels + k) * 2];
            squares += part[1] + size * (part[0] - middle) * (part[0] - middle);
        }
        mean[k] = float(middle);
        variance[k] = float(squares / (size * groups));
    }
}

std::vector<Weights> prepared(const Step* steps, int depth) {
    std::vector<Weights> all_weights;
    for (const Step* s = steps; s < steps + depth; s++) all_weights.emplace_back(s->conv, s->weight, false);
    return all_weights;
}

}  // namespace

extern "C" {

int dwmr_lanes() { return LANES; }

// Floats that a learning pass keeps for the way back.
size_t dwmr_chain_saved(const Step* steps, int depth, int groups) {
    size_t size = 0;
    for (const Step* s = steps; s < steps + depth; s++) size += groups * out_size(*s) * (s->normed ? 2 : 1);
    return size * LANES;
}

// groups · LANES images to (groups · LANES, outputs of the last step), by running statistics; nothing is kept.
void dwmr_chain_apply(const Step* steps, int depth, const float* images, int groups, float* out, int threads) {
    const auto weight = prepared(steps, depth);
    std::vector<Norm> norms;
    for (const Step* s = steps; s < steps + depth; s++)
        norms.push_back(s->normed ? Norm(*s, s->running_mean, s->running_variance) : Norm(Step{}, nullptr, nullptr));
    const size_t first_size = in_size(steps[0]), last = out_size(steps[depth - 1]);
#pragma omp parallel num_threads(threads)
    {
        Vectors first(largest(steps, depth)), second(largest(steps, depth)), room(framed_size(steps, depth));
#pragma omp for schedule(static)
        for (int g = 0; g < groups; g++) {
            vec *in = first.at, *to = second.at;
            gather(images + g * LANES * first_size, first_size, first_size, LANES, in);
            for (int k = 0; k < depth; k++, std::swap(in, to)) {
                const Step& s = steps[k];
                convolve(weight[k], framed(s, in, room.at), s.bias, to);
                if (s.normed)
                    rectify(s.conv.outputs, s.conv.out_plane(), to, s.residual ? in : nullptr, norms[k].gain.data(),
                            norms[k].level.data(), to);
            }
            scatter(in, last, last, LANES, out + g * LANES * last);
        }
    }
}

// The same by the batch's own statistics, which go to each step's mean and variance; `saved` keeps what the way back needs.
void dwmr_chain_learn(const Step* steps, int depth, const float* images, int groups, float* saved, float* out, int threads) {
    const auto weight = prepared(steps, depth);
    const auto kept = kept_in(steps, depth, groups, reinterpret_cast<vec*>(saved));
    const size_t first = in_size(steps[0]), last = out_size(steps[depth - 1]);
    std::vector<double> parts;
    for (const Step* s = steps; s < steps + depth; s++) parts.resize(std::max(parts.size(), size_t(groups) * s->conv.outputs * 2));
#pragma omp parallel num_threads(threads)
    {
        Vectors start(first), room(framed_size(steps, depth));
        for (int k = 0; k < depth; k++) {
            const Step& s = steps[k];
            const size_t size = out_size(s), plane = s.conv.out_plane();
            auto input = [&](int g) -> const vec* { return k ? kept[k - 1].out + g * in_size(s) : start.at; };
#pragma omp for schedule(static)
            for (int g = 0; g < groups; g++) {
                if (!k) gather(images + g * LANES * first, first, first, LANES, start.at);
                vec* y = kept[k].y + g * size;
                convolve(weight[k], framed(s, input(g), room.at), s.bias, y);
                for (int o = 0; s.normed && o < s.conv.outputs; o++) {
                    double* part = &parts[(size_t(g) * s.conv.outputs + o) * 2];
                    moments(y + o * plane, plane, part, part + 1);
                }
            }
            if (!s.normed) continue;
#pragma omp single
            pool(parts, groups, s.conv.outputs, plane, s.mean, s.variance);
            const Norm norm(s, s.mean, s.variance);
#pragma omp for schedule(static)
            for (int g = 0; g < groups; g++)
                rectify(s.conv.outputs, plane, kept[k].y + g * size, s.residual ? input(g) : nullptr, norm.gain.data(),
                        norm.level.data(), kept[k].out + g * size);
        }
#pragma omp for schedule(static)
        for (int g = 0; g < groups; g++) scatter(kept[depth - 1].out + g * last, last, last, LANES, out + g * LANES * last);
    }
}

// From the gradient of the outputs to those of every step's parameters, and of the images if dimages is not null.
void dwmr_chain_back(const Step* steps, int depth, const float* images, int groups, const float* saved, const float* dout,
                     float* dimages, int threads) {
    const auto kept = kept_in(steps, depth, groups, reinterpret_cast<vec*>(const_cast<float*>(saved)));
    const size_t last = out_size(steps[depth - 1]), first = in_size(steps[0]), largest_size = largest(steps, depth);
    std::vector<std::unique_ptr<Weights>> back;
    size_t parameters = 0, channels = 0;
    for (const Step* s = steps; s < steps + depth; s++) {
        const bool gathered = s->conv.stride == 1 && s->conv.turned().padding >= 0;
        back.emplace_back(gathered ? new Weights(s->conv, s->weight, true) : nullptr);
        parameters += weights(*s);
        channels = std::max(channels, size_t(s->conv.outputs));
    }
    std::vector<float> sums(threads * parameters), parts(groups * channels * 2);
    Vectors all_d(groups * largest_size);  // each group's gradient at the place reached so far
#pragma omp parallel num_threads(threads)
    {
        Vectors start(first), room(framed_size(steps, depth)), other(largest_size), dy(largest_size);
        float* at = sums.data() + (omp_get_thread_num() + 1) * parameters;
#pragma omp for schedule(static)
        for (int g = 0; g < groups; g++) gather(dout + g * LANES * last, last, last, LANES, all_d.at + g * largest_size);
        for (int k = depth - 1; k >= 0; k--) {
            const Step& s = steps[k];
            const Convolution c = s.conv;
            const size_t size = out_size(s), plane = c.out_plane();
            at -= weights(s);
            float *dweight = at, *dbias = at + c.weights(), *dscale = dbias + c.outputs, *dshift = dscale + c.outputs;
            std::unique_ptr<Norm> norm(s.normed ? new Norm(s, s.mean, s.variance) : nullptr);
            if (s.normed) {
#pragma omp for schedule(static)
                for (int g = 0; g < groups; g++)
                    for (int o = 0; o < c.outputs; o++) {
                        const vec *y = kept[k].y + g * size + o * plane, *out = kept[k].out + g * size + o * plane;
                        vec *d = all_d.at + g * largest_size + o * plane, sum = {}, with = {};
                        for (size_t p = 0; p < plane; p++) {
                            d[p] = out[p] > 0 ? d[p] : vec{};
                            sum += d[p];
                            with += d[p] * (y[p] - norm->mean[o]);
                        }
                        parts[(g * channels + o) * 2] = total(sum);
                        parts[(g * channels + o) * 2 + 1] = total(with) * norm->rate[o];
                    }
            }
            // d d = gain (d − Σd / n − x̂ Σdx̂ / n), as a line in y; every thread adds up all groups' parts for itself.
            std::vector<float> slope(c.outputs), level(c.outputs);
            for (int o = 0; s.normed && o < c.outputs; o++) {
                double sum = 0, with = 0;
                for (int g = 0; g < groups; g++) {
                    sum += parts[(g * channels + o) * 2];
                    with += parts[(g * channels + o) * 2 + 1];
                }
                const double count = double(groups) * plane * LANES;
                slope[o] = float(-norm->gain[o] * norm->rate[o] * with / count);
                level[o] = float(-norm->gain[o] * sum / count) - slope[o] * norm->mean[o];
                if (omp_get_thread_num() == 0) {
                    dscale[o] = float(with);
                    dshift[o] = float(sum);
                }
            }
#pragma omp for schedule(static)
            for (int g = 0; g < groups; g++) {
                vec* d = all_d.at + g * largest_size;
                const vec *y = kept[k].y + g * size, *at_y = d;
                if (s.normed) {
                    for (int o = 0; o < c.outputs; o++)
                        for (size_t p = o * plane; p < (o + 1) * plane; p++)
                            dy.at[p] = norm->gain[o] * d[p] + (slope[o] * y[p] + level[o]);
                    at_y = dy.at;
                }
                if (!k) gather(images + g * LANES * first, first, first, LANES, start.at);
                weigh(c, framed(s, k ? kept[k - 1].out + g * in_size(s) : start.at, room.at), at_y, dweight);
                for (int o = 0; s.bias && o < c.outputs; o++) {
                    vec sum = {};
                    for (size_t p = 0; p < plane; p++) sum += at_y[o * plane + p];
                    dbias[o] += total(sum);
                }
                if (!k && !dimages) continue;
                if (back[k]) {
                    frame(c.outputs, c.out_height(), c.out_width(), c.turned().padding, at_y, room.at);
                    convolve(*back[k], room.at, nullptr, other.at);
                } else {
                    spread(c, at_y, s.weight, other.at);
                }
                for (size_t p = 0; p < in_size(s); p++) d[p] = s.residual ? d[p] + other.at[p] : other.at[p];
                if (!k) scatter(d, first, first, LANES, dimages + g * LANES * first);
            }
        }
    }
    for (int t = 0; t < threads; t++) {  // in their order, so that the sums do not depend on who was first
        const float* part = sums.data() + t * parameters;
        for (const Step* s = steps; s < steps + depth; s++) {
            for (size_t w = 0; w < s->conv.weights(); w++) s->dweight[w] += *part++;
            for (float* to : {s->dbias, s->dscale, s->dshift})
                for (int o = 0; o < s->conv.outputs; o++, part++)
                    if (to) to[o] += *part;
        }
    }
}
}
