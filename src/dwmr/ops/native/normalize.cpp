// Bytes to floats: a byte of channel c becomes byte · scale[c] + shift[c].

#include <cstddef>

extern "C" void dwmr_normalize(const unsigned char* images, int planes, int channels, size_t plane, const float* scale,
                               const float* shift, float* out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int p = 0; p < planes; p++) {
        const unsigned char* from = images + p * plane;
        float* to = out + p * plane;
        const float a = scale[p % channels], b = shift[p % channels];
        for (size_t k = 0; k < plane; k++) to[k] = from[k] * a + b;
    }
}
