// Single layers on tensors (group, channel, row, column, lane): convolution, and batch norm with residual and ReLU.

#include <vector>

#include "convolution.h"

namespace {

const vec* vectors(const float* at) { return reinterpret_cast<const vec*>(at); }
vec* vectors(float* at) { return reinterpret_cast<vec*>(at); }

// A convolution's input of one group after the other, in lanes and with its frame.
class Input {
   public:
    Input(const Convolution& c, const float* in, bool images)
        : c(c), in(in), images(images), size(size_t(c.inputs) * c.height * c.width),
          side_by_side(images ? size : 0), framed(c.padding ? c.inputs * c.framed() : 0) {}

    const vec* of(int group) {
        const vec* lanes = images ? side_by_side.at : vectors(in) + group * size;
        if (images) gather(in + group * LANES * size, size, size, LANES, side_by_side.at);
        if (!c.padding) return lanes;
        frame(c.inputs, c.height, c.width, c.padding, lanes, framed.at);
        return framed.at;
    }

   private:
    const Convolution c;
    const float* const in;
    const bool images;
    const size_t size;
    Vectors side_by_side, framed;
};

}  // namespace

extern "C" {

int dwmr_lanes() { return LANES; }

// Lanes (groups, size, LANES) to images (groups · LANES, size), and back.
void dwmr_from_lanes(const float* lanes, int groups, int size, float* images, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int g = 0; g < groups; g++) scatter(vectors(lanes) + size_t(g) * size, size, size, LANES, images + size_t(g) * LANES * size);
}

void dwmr_to_lanes(const float* images, int groups, int size, float* lanes, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int g = 0; g < groups; g++) gather(images + size_t(g) * LANES * size, size, size, LANES, vectors(lanes) + size_t(g) * size);
}

// With `images` the input, and its gradient, are images as they come: (groups · LANES, inputs, height, width).
void dwmr_convolve(const Convolution* conv, const float* in, int images, int groups, const float* weight, const float* bias,
                   float* out, int threads) {
    const Convolution c = *conv;
    const Weights weights(c, weight, false);
    const size_t out_size = c.outputs * c.out_plane();
#pragma omp parallel num_threads(threads)
    {
        Input input(c, in, images);
#pragma omp for schedule(static)
        for (int g = 0; g < groups; g++) convolve(weights, input.of(g), bias, vectors(out) + g * out_size);
    }
}

// din may be null; dweight and dbias (which may be null) are added to.
void dwmr_convolve_back(const Convolution* conv, const float* in, int images, const float* dout, int groups,
                        const float* weight, float* din, float* dweight, float* dbias, int threads) {
    const Convolution c = *conv, turned = c.turned();
    const bool gathered = c.stride == 1 && turned.padding >= 0;
    const std::unique_ptr<Weights> back(gathered ? new Weights(c, weight, true) : nullptr);
    const size_t in_size = size_t(c.inputs) * c.height * c.width, out_size = c.outputs * c.out_plane();
    const size_t parameters = c.weights() + c.outputs;
    std::vector<float> sums(threads * parameters);
#pragma omp parallel num_threads(threads)
    {
        Input input(c, in, images);
        Vectors dout_framed(gathered ? c.outputs * turned.framed() : 0), din_lanes(images ? in_size : 0);
        float* dw = sums.data() + omp_get_thread_num() * parameters;
#pragma omp for schedule(static)
        for (int g = 0; g < groups; g++) {
            const vec* d = vectors(dout) + g * out_size;
            weigh(c, input.of(g), d, dw);
            for (int o = 0; o < c.outputs; o++) {
                vec sum = {};
                for (size_t p = 0; p < c.out_plane(); p++) sum += d[o * c.out_plane() + p];
                dw[c.weights() + o] += total(sum);
            }
            if (!din) continue;
            vec* to = images ? din_lanes.at : vectors(din) + g * in_size;
            if (gathered) {
                frame(c.outputs, c.out_height(), c.out_width(), turned.padding, d, dout_framed.at);
                convolve(*back, dout_framed.at, nullptr, to);
            } else {
                spread(c, d, weight, to);
            }
            if (images) scatter(to, in_size, in_size, LANES, din + g * LANES * in_size);
        }
    }
    for (int t = 0; t < threads; t++) {  // in their order, so that the sums do not depend on who was first
        const float* part = sums.data() + t * parameters;
        for (size_t w = 0; w < c.weights(); w++) dweight[w] += part[w];
        for (int o = 0; dbias && o < c.outputs; o++) dbias[o] += part[c.weights() + o];
    }
}

// Mean and variance (over all that is not the channel) of y (groups, channels, size, LANES).
void dwmr_moments(const float* y, int groups, int channels, int size, float* mean, float* variance, int threads) {
    const double count = double(groups) * size * LANES;
    std::vector<float> parts(size_t(groups) * channels);
    auto each_part = [&](auto value) {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (int g = 0; g < groups; g++)
            for (int k = 0; k < channels; k++) {
                const vec* from = vectors(y) + (size_t(g) * channels + k) * size;
                vec sum[4] = {};
                for (int p = 0; p < size; p++) sum[p & 3] += value(from[p], k);
                parts[size_t(g) * channels + k] = total(sum[0] + sum[1] + sum[2] + sum[3]);
            }
    };
    auto collect = [&](float* to) {
        for (int k = 0; k < channels; k++) {
            double sum = 0;
            for (int g = 0; g < groups; g++) sum += parts[size_t(g) * channels + k];
            to[k] = float(sum / count);
        }
    };
    each_part([](vec v, int) { return v; });
    collect(mean);
    each_part([&](vec v, int k) { return (v - mean[k]) * (v - mean[k]); });
    collect(variance);
}

// out = ReLU(gain · y + level + residual), the residual perhaps null; gain and level are one a channel.
void dwmr_rectify(const float* y, const float* residual, int groups, int channels, int size, const float* gain,
                  const float* level, float* out, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int g = 0; g < groups; g++)
        for (int k = 0; k < channels; k++) {
            const size_t at = (size_t(g) * channels + k) * size;
            const vec *from = vectors(y) + at, *more = residual ? vectors(residual) + at : nullptr;
            vec* to = vectors(out) + at;
            for (int p = 0; p < size; p++) {
                vec z = from[p] * gain[k] + level[k];
                if (more) z += more[p];
                to[p] = z < 0 ? vec{} : z;  // NaN stays NaN
            }
        }
}

// The gradient of out = ReLU(scale · x̂ + shift + residual), x̂ = (y − mean) · rate with the batch's own mean and rate:
// dy, dscale = Σ d x̂ and dshift = Σ d, where d is dout behind the ReLU; with a residual also its gradient, which is d.
// Without one both pointers are null, and the ReLU's side follows from y, which spares reading `out`.
void dwmr_rectify_back(const float* y, const float* out, const float* dout, int groups, int channels, int size,
                       const float* mean, const float* rate, const float* scale, const float* shift, float* dy,
                       float* dresidual, float* dscale, float* dshift, int threads) {
    const float count = float(groups) * size * LANES;
    std::vector<float> parts(size_t(groups) * channels * 2);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int g = 0; g < groups; g++)
        for (int k = 0; k < channels; k++) {
            const size_t at = (size_t(g) * channels + k) * size;
            const float gain = scale[k] * rate[k], level = shift[k] - mean[k] * gain;
            const vec *from = vectors(y) + at, *up = vectors(dout) + at, *o = out ? vectors(out) + at : nullptr;
            vec sum = {}, with = {};
            for (int p = 0; p < size; p++) {
                const vec d = (o ? o[p] : from[p] * gain + level) > 0 ? up[p] : vec{};
                sum += d;
                with += d * (from[p] - mean[k]);
            }
            parts[(size_t(g) * channels + k) * 2] = total(sum);
            parts[(size_t(g) * channels + k) * 2 + 1] = total(with) * rate[k];
        }
    for (int k = 0; k < channels; k++) {
        double sum = 0, with = 0;
        for (int g = 0; g < groups; g++) {
            sum += parts[(size_t(g) * channels + k) * 2];
            with += parts[(size_t(g) * channels + k) * 2 + 1];
        }
        dshift[k] = float(sum);
        dscale[k] = float(with);
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int g = 0; g < groups; g++)
        for (int k = 0; k < channels; k++) {
            const size_t at = (size_t(g) * channels + k) * size;
            const float gain = scale[k] * rate[k], level = shift[k] - mean[k] * gain;
            const float slope = -gain * rate[k] * dscale[k] / count, start = -gain * dshift[k] / count - slope * mean[k];
            const vec *from = vectors(y) + at, *up = vectors(dout) + at, *o = out ? vectors(out) + at : nullptr;
            vec *to = vectors(dy) + at, *beside = dresidual ? vectors(dresidual) + at : nullptr;
            for (int p = 0; p < size; p++) {
                const vec d = (o ? o[p] : from[p] * gain + level) > 0 ? up[p] : vec{};
                to[p] = gain * d + (slope * from[p] + start);
                if (beside) beside[p] = d;
            }
        }
}
}
