// The entry points: one for each step and precision.
#include "certificate/certificate.h"
#include "network/go_math.h"
#include "products/gradient.h"
#include "support/polish.h"
#include "lipschitz/spectrum.h"
#include "sure/sure.h"
#include "total_variation/total_variation.h"
#include "working_set/working_set.h"

extern "C" {
void go_math_float(const GoMath<float>* in) { go_math(*in); }
void go_math_double(const GoMath<double>* in) { go_math(*in); }
void sure_float(const Sure<float>* in) { sure(*in); }
void sure_double(const Sure<double>* in) { sure(*in); }
void forward_float(const Forward<float>* in) { forward(*in); }
void forward_double(const Forward<double>* in) { forward(*in); }
void ahead_float(const Ahead<float>* in) { ahead(*in); }
void ahead_double(const Ahead<double>* in) { ahead(*in); }
void compare_float(const Compare<float>* in) { compare(*in); }
void compare_double(const Compare<double>* in) { compare(*in); }
void follow_float(const Follow<float>* in) { follow(*in); }
void follow_double(const Follow<double>* in) { follow(*in); }
void turn_float(const Turn<float>* in) { turn(*in); }
void turn_double(const Turn<double>* in) { turn(*in); }
void certificate_float(const Certificate<float>* in) { certificates(*in); }
void certificate_double(const Certificate<double>* in) { certificates(*in); }
void polish_float(const Polish<float>* in) { polish(*in); }
void polish_double(const Polish<double>* in) { polish(*in); }
void largest_float(const Largest<float>* in) { largest(*in); }
void largest_double(const Largest<double>* in) { largest(*in); }
void gradient_float(const Gradient<float>* in) { gradients(*in); }
void gradient_double(const Gradient<double>* in) { gradients(*in); }
void total_variation_float(const TotalVariation<float>* in) { total_variation(*in); }
void total_variation_double(const TotalVariation<double>* in) { total_variation(*in); }
void working_set_float(const WorkingSet<float>* in) { working_set(*in); }
void working_set_double(const WorkingSet<double>* in) { working_set(*in); }
}
