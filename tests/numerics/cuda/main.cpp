// Checks every kernel of `bridge/kernels/` on the CPU. Exits with 1 and a message at the first that is wrong.

void check_adafactor();
void check_cross_entropy();
void check_fp8();
void check_gated_gelu();
void check_large();
void check_relative_position();
void check_rms_norm();

int main() {
  check_adafactor();
  check_cross_entropy();
  check_fp8();
  check_gated_gelu();
  check_large();
  check_relative_position();
  check_rms_norm();
}
