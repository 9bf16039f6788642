/* Reads the numbers of a plain body in one pass, straight into the array's own bytes.
 *
 * scan(body: bytes, kind: str) -> (envelope: bytes, data: bytes) | None
 *   body      JSON with one flat list of numbers under its only key "data"
 *   kind      as `struct` has it: f, d (any JSON number), i, q (whole numbers)
 *   envelope  the body without that list: what it means is judged elsewhere, once for each
 *   data      the numbers, little-endian
 *   None      anything else, also what is broken or out of range: the careful reader's
 *
 * An envelope without a backslash spells every key as it is, so where `"data"` stands once, it is that key.
 */
#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
static const char KEY[] = "\"data\"";
enum { KEY_SIZE = sizeof KEY - 1, EXACT_DIGITS = 15, EXACT_POWER = 22, MOST_INT_DIGITS = 18 };

static inline int is_digit(char c) { return c >= '0' && c <= '9'; }
static inline const char *skip_space(const char *at) {
  while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r') at++;
  return at;
}

/* Reads a number of JSON's grammar. Bytes objects end in a zero, so no look goes past the end. Up to 15 digits and
 * a power of ten up to 22 are exact doubles, so one operation on them rounds correctly (Clinger 1990); the rest is
 * CPython's own to read. Returns behind it, or NULL. */
static const char *read_double(const char *at, double *value) {
  const char *start = at;
  int negative = *at == '-', digits = 0, power = 0;
  uint64_t mantissa = 0;
  at += negative;
  if (!is_digit(*at) || (*at == '0' && is_digit(at[1]))) return NULL;
  for (; is_digit(*at); at++, digits++) mantissa = mantissa * 10 + (uint64_t)(*at - '0');
  if (*at == '.') {
    const char *point = ++at;
    if (!is_digit(*at)) return NULL;
    for (; is_digit(*at); at++, digits++) mantissa = mantissa * 10 + (uint64_t)(*at - '0');
    power = (int)(point - at);
  }
  if (*at != 'e' && *at != 'E' && digits <= EXACT_DIGITS && power >= -EXACT_POWER) {
    double exact = (double)mantissa / POWERS[-power];
    *value = negative && (mantissa || power) ? -exact : exact; /* -0 is the whole number 0, -0.0 is not */
    return at;
  }
  if (*at == 'e' || *at == 'E') {
    at++;
    if (*at == '+' || *at == '-') at++;
    if (!is_digit(*at)) return NULL;
    while (is_digit(*at)) at++;
  }
  char *end;
  *value = PyOS_string_to_double(start, &end, NULL);
  if (PyErr_Occurred()) { PyErr_Clear(); return NULL; }
  return end == at && isfinite(*value) ? at : NULL;
}

static const char *read_whole(const char *at, int64_t *value) {
  int negative = *at == '-', digits = 0;
  int64_t found = 0;
  at += negative;
  if (!is_digit(*at) || (*at == '0' && is_digit(at[1]))) return NULL;
  for (; is_digit(*at); at++) {
    if (++digits > MOST_INT_DIGITS) return NULL;
    found = found * 10 + (*at - '0');
  }
  *value = negative ? -found : found;
  return at;
}

/* Reads one element of `kind` into `to`; returns behind it, or NULL. */
static const char *read_element(const char *at, char kind, char *to) {
  if (kind == 'f' || kind == 'd') {
    double wide;
    at = read_double(at, &wide);
    if (!at) return NULL;
    if (kind == 'd') { memcpy(to, &wide, 8); return at; }
    float narrow = (float)wide;
    if (isinf(narrow)) return NULL;
    memcpy(to, &narrow, 4);
    return at;
  }
  int64_t wide;
  at = read_whole(at, &wide);
  if (!at) return NULL;
  if (kind == 'q') { memcpy(to, &wide, 8); return at; }
  int32_t narrow = (int32_t)wide;
  if (narrow != wide) return NULL;
  memcpy(to, &narrow, 4);
  return at;
}

static PyObject *joined(const char *head, Py_ssize_t size, const char *tail, Py_ssize_t more) {
  PyObject *made = PyBytes_FromStringAndSize(NULL, size + more);
  if (!made) return NULL;
  memcpy(PyBytes_AS_STRING(made), head, (size_t)size);
  memcpy(PyBytes_AS_STRING(made) + size, tail, (size_t)more);
  return made;
}

static int is_plain(const char *part, Py_ssize_t size) {
  return !memchr(part, '\\', (size_t)size) && !memmem(part, (size_t)size, KEY, KEY_SIZE);
}

static PyObject *scan(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  (void)module;
  if (count != 2 || !PyBytes_CheckExact(arguments[0]) || !PyUnicode_Check(arguments[1])) {
    PyErr_SetString(PyExc_TypeError, "scan(body: bytes, kind: str)");
    return NULL;
  }
  const char *body = PyBytes_AS_STRING(arguments[0]), *end = body + PyBytes_GET_SIZE(arguments[0]);
  char kind = (char)PyUnicode_READ_CHAR(arguments[1], 0);
  size_t width = kind == 'd' || kind == 'q' ? 8 : 4;
  const char *key = memmem(body, (size_t)(end - body), KEY, KEY_SIZE);
  if (!key) Py_RETURN_NONE;
  const char *at = skip_space(key + KEY_SIZE);
  if (*at++ != ':') Py_RETURN_NONE;
  at = skip_space(at);
  if (*at++ != '[') Py_RETURN_NONE;
  const char *list = at;
  size_t room = (size_t)(end - at) / 2 + 1; /* an element takes two bytes at least, its comma included */
  char near[4096], *data = room * width <= sizeof near ? near : PyMem_Malloc(room * width), *to = data;
  if (!data) return PyErr_NoMemory();
  for (at = skip_space(at);; at = skip_space(at + 1)) {
    at = read_element(at, kind, to);
    if (!at) break;
    to += width;
    at = skip_space(at);
    if (*at == ']') break;
    if (*at != ',') { at = NULL; break; }
  }
  PyObject *result = NULL;
  if (!at || !is_plain(body, key - body) || !is_plain(at, end - at)) {
    result = Py_NewRef(Py_None);
  } else {
    PyObject *envelope = joined(body, list - body, at, end - at);
    PyObject *packed = envelope ? PyBytes_FromStringAndSize(data, to - data) : NULL;
    result = packed ? PyTuple_Pack(2, envelope, packed) : NULL;
    Py_XDECREF(envelope);
    Py_XDECREF(packed);
  }
  if (data != near) PyMem_Free(data);
  return result;
}

static PyMethodDef METHODS[] = {
    {"scan", (PyCFunction)(void (*)(void))scan, METH_FASTCALL, "scan(body, kind) -> (envelope, data) | None"},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "penstock_scan", NULL, -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_penstock_scan(void) { return PyModule_Create(&MODULE); }
