// PyTorch ships the headers of c10d without those of Gloo; ProcessGroupGloo.hpp needs no more of this one.

#pragma once
