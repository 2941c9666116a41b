/* A step of one stream, without Python in between: what `lone_stream.py` does with PyTorch, to rounding.
 *
 * Compiled once for each instruction set, which AS gives the names of its functions. Structures are those of
 * `library.py`. Nothing is allocated and nothing can fail: whoever calls has checked sizes, types and places.
 */
#include <math.h>
#include <stddef.h>

#include "vectors.h"

#define JOINED(name, set) name##_##set
#define NAMED(name, set) JOINED(name, set)
#define PUBLIC(name) NAMED(cotrans_##name, AS)

enum { FLOAT32 = 0, FLOAT16 = 1, INT8 = 2 };
static const float TINY = 0x1p-119f; /* as in int8.py */
static const double UNIT = 0x1p-53;  /* as in retroactive.py */

typedef struct {
    const void *weight;  /* (out, in): float, half or int8 */
    const float *bias;   /* (out) or NULL */
    const float *scale;  /* (out) what an int8 weight of 1 is worth */
    const int32_t *sums; /* (out) 128 times the sum of int8 weights */
    int32_t out, in, kind;
    int32_t parts;   /* int8 rows that a row becomes: 1 or 2 */
    int32_t largest; /* of them */
} Linear;

typedef struct {
    Linear projection, output, expand, contract;
    const float *attention_gain, *attention_shift, *feed_forward_gain, *feed_forward_shift;
    const float *age_bias; /* (h, 2n), doubled, or NULL */
    float *key, *value;    /* (B, h, n, w) rings */
    float *recent;         /* (B, lag + 1, d) ring, or NULL */
    float *scratch;
    float epsilon, scale;
    int32_t heads, slots, width, lag, pre_norm, gelu;
} Block;

/* ---- products ------------------------------------------------------------------------------------------- */

/* Weights from which on a layer comes from memory: asked for one group of rows ahead, which the processor cannot guess. */
enum { FAR = 1 << 18 };

/* y = W x + bias, four outputs at a time and two vectors of each, so that no sum waits for the one before. */
#define PRODUCT(NAME, TYPE, LOAD, LOAD_PART)                                                                          \
    static inline __attribute__((always_inline)) void NAME##_from(const int far, const TYPE *weight, const float *bias, \
                                                                  int out, int in, const float *x, float *y) {        \
        for (int o = 0; o < out; o += 4) {                                                                            \
            int rows = out - o < 4 ? out - o : 4;                                                                     \
            const TYPE *w[4];                                                                                         \
            for (int k = 0; k < 4; k++) w[k] = weight + (size_t)(o + (k < rows ? k : 0)) * in;                        \
            floats a[4], b[4];                                                                                        \
            for (int k = 0; k < 4; k++) a[k] = b[k] = all(0.0f);                                                      \
            int i = 0;                                                                                                \
            for (; i + 2 * V <= in; i += 2 * V) {                                                                     \
                floats p = load(x + i), q = load(x + i + V);                                                          \
                for (int k = 0; k < 4; k++) {                                                                         \
                    if (far) {                                                                                        \
                        _mm_prefetch((const char *)(w[k] + i + 4 * in), _MM_HINT_T0);                                 \
                        if (V * sizeof(TYPE) == 64) _mm_prefetch((const char *)(w[k] + i + V + 4 * in), _MM_HINT_T0); \
                    }                                                                                                 \
                    a[k] = fma_(LOAD(w[k] + i), p, a[k]);                                                             \
                    b[k] = fma_(LOAD(w[k] + i + V), q, b[k]);                                                         \
                }                                                                                                     \
            }                                                                                                         \
            for (; i < in; i += V) {                                                                                  \
                int n = in - i < V ? in - i : V;                                                                      \
                floats p = n < V ? load_part(x + i, n) : load(x + i);                                                 \
                for (int k = 0; k < 4; k++)                                                                           \
                    a[k] = fma_(n < V ? LOAD_PART(w[k] + i, n) : LOAD(w[k] + i), p, a[k]);                            \
            }                                                                                                         \
            for (int k = 0; k < rows; k++) y[o + k] = sum(add(a[k], b[k])) + (bias ? bias[o + k] : 0.0f);             \
        }                                                                                                             \
    }                                                                                                                 \
    static void NAME(const TYPE *weight, const float *bias, int out, int in, const float *x, float *y) {              \
        if ((int64_t)out * in >= FAR) NAME##_from(1, weight, bias, out, in, x, y);                                    \
        else NAME##_from(0, weight, bias, out, in, x, y);                                                             \
    }

PRODUCT(product_float, float, load, load_part)
PRODUCT(product_half, uint16_t, load_half, load_half_part)

/* Numbers from -largest to largest, and zeros to the end of the last 64; what 1 is worth. `rest`: what rounding took.
 *
 * That is NaN where a number is not finite, and so is all that is made of the row. */
static float scaled(const float *x, int in, int largest_number, int8_t *whole, int8_t *rest) {
    floats most = all(0.0f), broken = most; /* a number minus itself is 0, or NaN where it is not finite */
    int i = 0;
    for (; i < in; i += V) {
        floats part = in - i < V ? load_part(x + i, in - i) : load(x + i);
        most = largest_of(most, magnitude(part));
        broken = add(broken, sub(part, part));
    }
    float top = largest(most);
    float worth = (top > TINY ? top : TINY) * (1.0f / (float)largest_number) + sum(broken);
    int padded = (in + 63) / 64 * 64;
    for (i = 0; i < in; i++) {
        float number = x[i] / worth, coarse = rintf(number);
        whole[i] = (int8_t)(int)coarse;
        if (rest) rest[i] = (int8_t)(int)rintf((number - coarse) * (float)(2 * largest_number));
    }
    memset(whole + in, 0, (size_t)(padded - in));
    if (rest) memset(rest + in, 0, (size_t)(padded - in));
    return worth;
}

/* The exact sum of int8 products. x is padded with zeros to whole 64s, the weights are not. */
#if defined(__AVX512VNNI__)
static inline int32_t dot(const int8_t *w, const int8_t *x, int in, int32_t correction) {
    const __m512i flip = _mm512_set1_epi8((char)0x80); /* x + 128, unsigned */
    __m512i a = _mm512_setzero_si512(), b = a;
    int i = 0;
    for (; i + 128 <= in; i += 128) {
        a = _mm512_dpbusd_epi32(a, _mm512_xor_si512(_mm512_loadu_si512(x + i), flip), _mm512_loadu_si512(w + i));
        b = _mm512_dpbusd_epi32(b, _mm512_xor_si512(_mm512_loadu_si512(x + i + 64), flip), _mm512_loadu_si512(w + i + 64));
    }
    for (; i < in; i += 64) {
        __mmask64 mask = in - i < 64 ? ((__mmask64)1 << (in - i)) - 1 : ~(__mmask64)0;
        a = _mm512_dpbusd_epi32(a, _mm512_xor_si512(_mm512_loadu_si512(x + i), flip), _mm512_maskz_loadu_epi8(mask, w + i));
    }
    return _mm512_reduce_add_epi32(_mm512_add_epi32(a, b)) - correction;
}
#else
static inline __m256i wide(const int8_t *p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p)); }

static inline int32_t dot(const int8_t *w, const int8_t *x, int in, int32_t correction) {
    (void)correction;
    __m256i a = _mm256_setzero_si256(), b = a;
    int i = 0;
    for (; i + 32 <= in; i += 32) {
        a = _mm256_add_epi32(a, _mm256_madd_epi16(wide(w + i), wide(x + i)));
        b = _mm256_add_epi32(b, _mm256_madd_epi16(wide(w + i + 16), wide(x + i + 16)));
    }
    for (; i < in; i += 16) {
        int8_t few[16] = {0};
        memcpy(few, w + i, (size_t)(in - i < 16 ? in - i : 16));
        a = _mm256_add_epi32(a, _mm256_madd_epi16(wide(few), wide(x + i)));
    }
    a = _mm256_add_epi32(a, b);
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1)));
}
#endif

/* Outputs `first` to `last` of a layer. bytes: 2 · (in + 63) of scratch for int8. */
static void project(const Linear *layer, int from, int to, const float *x, float *y, int8_t *bytes) {
    int in = layer->in;
    const float *bias = layer->bias ? layer->bias + from : NULL;
    if (layer->kind == FLOAT32) {
        product_float((const float *)layer->weight + (size_t)from * in, bias, to - from, in, x, y);
    } else if (layer->kind == FLOAT16) {
        product_half((const uint16_t *)layer->weight + (size_t)from * in, bias, to - from, in, x, y);
    } else {
        int8_t *rest = layer->parts == 2 ? bytes + (in + 63) / 64 * 64 : NULL;
        float worth = scaled(x, in, layer->largest, bytes, rest), share = 1.0f / (float)(2 * layer->largest);
        for (int o = from; o < to; o++) {
            const int8_t *w = (const int8_t *)layer->weight + (size_t)o * in;
            float product = (float)dot(w, bytes, in, layer->sums[o]);
            if (rest) product += (float)dot(w, rest, in, layer->sums[o]) * share;
            product = product * layer->scale[o] * worth;
            y[o - from] = bias ? product + bias[o - from] : product;
        }
    }
}

/* ---- rows ----------------------------------------------------------------------------------------------- */

/* out = layer norm of x (+ y, where there is one): one row of d numbers. `out` may be x or y. */
static void normed(const float *x, const float *y, const float *gain, const float *shift, float epsilon, int d, float *out) {
    floats total = all(0.0f), squares = all(0.0f);
    int whole = d / V * V, left = d - whole;
    for (int i = 0; i < whole; i += V) {
        floats row = y ? add(load(x + i), load(y + i)) : load(x + i);
        total = add(total, row);
        store(out + i, row);
    }
    if (left) {
        floats row = load_part(x + whole, left);
        if (y) row = add(row, load_part(y + whole, left));
        total = add(total, row);
        store_part(out + whole, row, left);
    }
    float average = sum(total) / (float)d;
    floats mean = all(average);
    for (int i = 0; i < whole; i += V) {
        floats row = sub(load(out + i), mean);
        squares = fma_(row, row, squares);
    }
    float rest = 0.0f;
    for (int i = whole; i < d; i++) {
        rest += (out[i] - average) * (out[i] - average);
    }
    floats inverse = all(1.0f / sqrtf((sum(squares) + rest) / (float)d + epsilon));
    for (int i = 0; i < whole; i += V)
        store(out + i, fma_(mul(sub(load(out + i), mean), inverse), load(gain + i), load(shift + i)));
    if (left) {
        floats row = mul(sub(load_part(out + whole, left), mean), inverse);
        store_part(out + whole, fma_(row, load_part(gain + whole, left), load_part(shift + whole, left)), left);
    }
}

static void activate(float *x, int d, int gelu) {
    if (gelu) {
        for (int i = 0; i < d; i++) x[i] *= 0.5f * (1.0f + erff(x[i] * 0.70710678f));
        return;
    }
    int i = 0;
    for (; i + V <= d; i += V) store(x + i, largest_of(all(0.0f), load(x + i))); /* NaN stays NaN */
    for (; i < d; i++) x[i] = x[i] < 0.0f ? 0.0f : x[i];
}

static inline float product_of(const float *a, const float *b, int n) {
    floats total = all(0.0f);
    int i = 0;
    for (; i + V <= n; i += V) total = fma_(load(a + i), load(b + i), total);
    if (i < n) total = fma_(load_part(a + i, n - i), load_part(b + i, n - i), total);
    return sum(total);
}

/* Attention of one head: query (w) on n keys and values, `stride` numbers apart, to out (w). scores: (n), with their bias. */
static void attend(const float *query, const float *key, const float *value, int n, int stride, int w, float scale,
                   const float *bias, float *scores, float *out) {
    float top = -INFINITY;
    for (int j = 0; j < n; j++) {
        scores[j] = product_of(query, key + (size_t)j * stride, w) * scale + (bias ? bias[j] : 0.0f);
        top = scores[j] > top ? scores[j] : top;
    }
    floats mass = all(0.0f), highest = all(top);
    int j = 0;
    for (; j + V <= n; j += V) {
        floats weight = exponential(sub(load(scores + j), highest));
        mass = add(mass, weight);
        store(scores + j, weight);
    }
    if (j < n) {
        floats weight = exponential(sub(load_part(scores + j, n - j), highest));
        store_part(scores + j, weight, n - j);
        mass = add(mass, load_part(scores + j, n - j));
    }
    floats inverse = all(1.0f / sum(mass));
    for (int c = 0; c < w; c += V) {
        int part = w - c < V ? w - c : V;
        floats even = all(0.0f), odd = even;
        const float *v = value + c;
        for (j = 0; j + 2 <= n; j += 2, v += 2 * (size_t)stride) {
            even = fma_(all(scores[j]), part < V ? load_part(v, part) : load(v), even);
            odd = fma_(all(scores[j + 1]), part < V ? load_part(v + stride, part) : load(v + stride), odd);
        }
        if (j < n) even = fma_(all(scores[j]), part < V ? load_part(v, part) : load(v), even);
        floats mixed = mul(add(even, odd), inverse);
        if (part < V) store_part(out + c, mixed, part);
        else store(out + c, mixed);
    }
}

/* ---- one row ---------------------------------------------------------------------------------------------- */

typedef struct {
    float *entering, *projected, *scores, *attended, *total, *hidden;
    int8_t *bytes;
} Scratch;

static Scratch parts_of(const Block *block) {
    int d = block->heads * block->width;
    Scratch parts;
    parts.entering = block->scratch;
    parts.projected = parts.entering + d;
    parts.scores = parts.projected + 3 * d;
    parts.attended = parts.scores + block->slots;
    parts.total = parts.attended + d;
    parts.hidden = parts.total + d;
    parts.bytes = (int8_t *)(parts.hidden + block->expand.out);
    return parts;
}

/* Attention of the query at the head of `projected`, and everything after it. row: (d) the block's input. */
static void finish(const Block *block, const Scratch *at, const float *row, const float *key, const float *value,
                   int count, size_t head_stride, int slot_stride, const float *bias, float *out) {
    int w = block->width, d = block->heads * w;
    for (int h = 0; h < block->heads; h++)
        attend(at->projected + h * w, key + h * head_stride, value + h * head_stride, count, slot_stride, w,
               block->scale, bias ? bias + (size_t)h * 2 * block->slots : NULL, at->scores, at->attended + h * w);
    project(&block->output, 0, d, at->attended, at->total, at->bytes);
    const float *entering = at->entering;
    if (block->pre_norm) {
        for (int i = 0; i < d; i++) at->total[i] += row[i];
        normed(at->total, NULL, block->feed_forward_gain, block->feed_forward_shift, block->epsilon, d, at->entering);
    } else {
        normed(row, at->total, block->attention_gain, block->attention_shift, block->epsilon, d, at->total);
        entering = at->total;
    }
    project(&block->expand, 0, block->expand.out, entering, at->hidden, at->bytes);
    activate(at->hidden, block->expand.out, block->gelu);
    project(&block->contract, 0, d, at->hidden, at->attended, at->bytes);
    if (block->pre_norm) {
        for (int i = 0; i < d; i++) out[i] = at->total[i] + at->attended[i];
    } else {
        normed(at->total, at->attended, block->feed_forward_gain, block->feed_forward_shift, block->epsilon, d, out);
    }
}

/* What queries, keys and values are made of. */
static const float *attention_input(const Block *block, const float *row, float *room) {
    if (!block->pre_norm) return row;
    normed(row, NULL, block->attention_gain, block->attention_shift, block->epsilon, block->heads * block->width, room);
    return room;
}

/* One token (d) of a stream through a block that keeps keys and values. stream: its row of the rings. */
static void step(const Block *block, const float *token, int64_t stream, int64_t position, float *out) {
    int w = block->width, n = block->slots, d = block->heads * w, slot = (int)(position % n);
    float *keys = block->key + (size_t)stream * n * d, *values = block->value + (size_t)stream * n * d;
    Scratch at = parts_of(block);
    const float *row = token, *entering = attention_input(block, token, at.entering);
    if (block->lag) {
        int size = block->lag + 1;
        float *recent = block->recent + (size_t)stream * size * d;
        project(&block->projection, d, 3 * d, entering, at.projected + d, at.bytes);
        memcpy(recent + (position % size) * d, token, (size_t)d * sizeof *token);
        row = recent + (position >= size ? (position + 1) % size : 0) * d;
        project(&block->projection, 0, d, attention_input(block, row, at.entering), at.projected, at.bytes);
    } else {
        project(&block->projection, 0, 3 * d, entering, at.projected, at.bytes);
    }
    for (int h = 0; h < block->heads; h++) {
        memcpy(keys + ((size_t)h * n + slot) * w, at.projected + d + h * w, (size_t)w * sizeof *token);
        memcpy(values + ((size_t)h * n + slot) * w, at.projected + 2 * d + h * w, (size_t)w * sizeof *token);
    }
    const float *bias = block->age_bias ? block->age_bias + (n - slot) : NULL;
    int held = position + 1 < n ? (int)position + 1 : n; /* the first slots, until the window is full */
    finish(block, &at, row, keys, values, held, (size_t)n * w, w, bias, out);
}

/* Tokens (count, d) of some streams, to the rows (count, d) of these tokens, or of those `lag` steps ago.
 *
 * streams: (count) their rows of the rings; positions: (B) tokens of each stream before this one. */
void PUBLIC(step)(const Block *block, const float *tokens, const int64_t *streams, const int64_t *positions,
                  int64_t count, float *out) {
    size_t d = (size_t)block->heads * block->width;
    for (int64_t i = 0; i < count; i++) step(block, tokens + i * d, streams[i], positions[streams[i]], out + i * d);
}

/* The row (d) of the token in `slot`, from keys and values of all rows, side by side: both (n, 2d). */
void PUBLIC(newest)(const Block *block, const float *rows, const float *both, int slot, float *out) {
    int w = block->width, d = block->heads * w;
    Scratch at = parts_of(block);
    const float *row = rows + (size_t)slot * d;
    project(&block->projection, 0, d, attention_input(block, row, at.entering), at.projected, at.bytes);
    finish(block, &at, row, both, both + d, block->slots, (size_t)w, 2 * d, NULL, out);
}

/* ---- all rows --------------------------------------------------------------------------------------------- */

/* Rows (m, d): total = x + y + bias (d), and out = its layer norm. bias: may be NULL. */
void PUBLIC(norm_rows)(const float *x, const float *y, const float *bias, const float *gain, const float *shift,
                       float epsilon, int64_t m, int64_t d, float *total, float *out) {
    for (int64_t i = 0; i < m; i++) {
        const float *row = x + i * d, *other = y + i * d;
        float *both = total + i * d;
        if (bias)
            for (int64_t c = 0; c < d; c++) both[c] = row[c] + (other[c] + bias[c]);
        else
            for (int64_t c = 0; c < d; c++) both[c] = row[c] + other[c];
        normed(both, NULL, gain, shift, epsilon, (int)d, out + i * d);
    }
}

/* Rows (m, d) = activation of x + bias (d), in place. bias: may be NULL. */
void PUBLIC(activate_rows)(float *x, const float *bias, int64_t m, int64_t d, int32_t gelu) {
    for (int64_t i = 0; i < m; i++) {
        if (bias)
            for (int64_t c = 0; c < d; c++) x[i * d + c] += bias[c];
        activate(x + i * d, (int)d, gelu);
    }
}

typedef struct {
    double *query, *magnitude, *key, *value, *sums, *reference, *error; /* as in `RetroactiveState`, one stream */
    double *scratch;                                                    /* 7 n + 2 w + 2 */
    double scale, tolerance;
    int32_t heads, slots, width;
} Rows;

static inline double product_of_d(const double *a, const double *b, int n) {
    doubles total = all_d(0.0);
    int i = 0;
    for (; i + W <= n; i += W) total = fma_d(load_d(a + i), load_d(b + i), total);
    if (i < n) total = fma_d(load_part_d(a + i, n - i), load_part_d(b + i, n - i), total);
    return sum_d(total);
}

/* exp(x - y) for n numbers, where that is at most 0; above it (a key that leaves, by rounding) 1. */
static void weights(const double *x, const double *y, int n, double *out) {
    for (int i = 0; i < n; i += W) {
        int part = n - i < W ? n - i : W;
        doubles difference = part < W ? sub_d(load_part_d(x + i, part), load_part_d(y + i, part))
                                      : sub_d(load_d(x + i), load_d(y + i));
        doubles limit = all_d(0.0);
#ifdef __AVX512F__
        difference = _mm512_min_pd(limit, difference);
#else
        difference = _mm256_min_pd(limit, difference);
#endif
        doubles weight = exponential_d(difference);
        if (part < W) store_part_d(out + i, weight, part);
        else store_d(out + i, weight);
    }
}

/* One row from scratch: its sums, reference and error. scores: 2 n of scratch. */
static void computed(const Rows *rows, const double *query, const double *keys, const double *values, double *scores,
                     double *sums, double *reference, double *error) {
    int n = rows->slots, w = rows->width, columns = w + 2;
    double top = -INFINITY;
    for (int j = 0; j < n; j++) {
        scores[j] = product_of_d(query, keys + (size_t)j * w, w);
        top = scores[j] > top ? scores[j] : top;
    }
    double *highest = scores + n;
    for (int j = 0; j < n; j++) highest[j] = top;
    weights(scores, highest, n, scores);
    for (int c = 0; c < columns; c += W) {
        int part = columns - c < W ? columns - c : W;
        doubles total = all_d(0.0);
        for (int j = 0; j < n; j++) {
            const double *v = values + (size_t)j * columns + c;
            total = fma_d(all_d(scores[j]), part < W ? load_part_d(v, part) : load_d(v), total);
        }
        if (part < W) store_part_d(sums + c, total, part);
        else store_d(sums + c, total);
    }
    *reference = top;
    error[0] = 4 * UNIT * sums[w];
    error[1] = 4 * UNIT * sums[w + 1];
}

/* `retroactive.update_` of one stream whose window is full after this token, without class token and fading.
 *
 * projected: (3d) query, key and value of the token; leaves: whether the slot held one; out: (n, d) attention of all rows. */
void PUBLIC(update_rows)(const Rows *rows, const float *projected, int64_t slot, int32_t leaves, float *out) {
    int n = rows->slots, w = rows->width, d = rows->heads * w, columns = w + 2;
    double *score = rows->scratch, *old_score = score + n, *raised = old_score + n, *shrink = raised + n;
    double *weight = shrink + n, *spare = weight + n, *old_key = spare + 2 * n, *old_value = old_key + w;
    for (int h = 0; h < rows->heads; h++) {
        double *queries = rows->query + (size_t)h * n * w, *keys = rows->key + (size_t)h * n * w;
        double *values = rows->value + (size_t)h * n * columns, *all_sums = rows->sums + (size_t)h * n * columns;
        double *references = rows->reference + (size_t)h * n, *errors = rows->error + (size_t)h * n * 2;
        double *magnitudes = rows->magnitude + (size_t)h * n;
        double *query = queries + slot * w, *key = keys + slot * w, *value = values + slot * columns;
        memcpy(old_key, key, (size_t)w * sizeof *key);
        memcpy(old_value, value, (size_t)columns * sizeof *value);
        double most = 0.0;
        for (int c = 0; c < w; c++) {
            query[c] = (double)projected[h * w + c] * rows->scale;
            key[c] = projected[d + h * w + c];
            value[c] = projected[2 * d + h * w + c];
            most = fabs(value[c]) > most ? fabs(value[c]) : most;
        }
        value[w] = 1.0;
        value[w + 1] = most;
        magnitudes[slot] = sqrt(product_of_d(query, query, w));
        for (int s = 0; s < n; s++) {
            score[s] = product_of_d(queries + (size_t)s * w, key, w);
            raised[s] = score[s] > references[s] ? score[s] : references[s];
        }
        if (leaves)
            for (int s = 0; s < n; s++) old_score[s] = product_of_d(queries + (size_t)s * w, old_key, w);
        weights(references, raised, n, shrink);
        weights(score, raised, n, weight);
        if (leaves) weights(old_score, raised, n, old_score);
        double size = UNIT * w * sqrt(product_of_d(old_key, old_key, w));
        for (int s = 0; s < n; s++) {
            double *sums = all_sums + (size_t)s * columns, *error = errors + 2 * s;
            double old_weight = leaves ? old_score[s] : 0.0;
            double grown[2];
            for (int c = 0; c < 2; c++) grown[c] = sums[w + c] * shrink[s] + weight[s] * value[w + c];
            doubles shrinks = all_d(shrink[s]), gains = all_d(weight[s]), losses = all_d(-old_weight);
            for (int c = 0; c < columns; c += W) {
                int part = columns - c < W ? columns - c : W;
                doubles total;
                if (part < W) {
                    total = mul_d(load_part_d(sums + c, part), shrinks);
                    total = fma_d(gains, load_part_d(value + c, part), total);
                    store_part_d(sums + c, fma_d(losses, load_part_d(old_value + c, part), total), part);
                } else {
                    total = fma_d(gains, load_d(value + c), mul_d(load_d(sums + c), shrinks));
                    store_d(sums + c, fma_d(losses, load_d(old_value + c), total));
                }
            }
            double mismatch = 8 * UNIT + size * magnitudes[s]; /* 4 for the exponentials of retroactive.py, 4 for these */
            references[s] = raised[s];
            int good = 1;
            for (int c = 0; c < 2; c++) {
                error[c] = error[c] * shrink[s] + 4 * UNIT * grown[c] + mismatch * old_weight * old_value[w + c];
                good &= error[c] <= rows->tolerance * sums[w + c];
            }
            if (!good || s == slot)
                computed(rows, queries + (size_t)s * w, keys, values, spare, sums, references + s, error);
            double inverse = 1.0 / sums[w];
            for (int c = 0; c < w; c++) out[(size_t)s * d + h * w + c] = (float)(sums[c] * inverse);
        }
    }
}
