// The part of onnxruntime's C interface that docs/export.md uses, for machines that have its library (as every Python
// wheel does) and not its header. The interface is a table of functions whose places never change; those that are not
// used here are left blank.
#pragma once
#include <cstddef>
#include <cstdint>

#define ORT_API_VERSION 1

struct OrtAllocator;
struct OrtEnv;
struct OrtSession;
struct OrtSessionOptions;
struct OrtRunOptions;
struct OrtStatus;
struct OrtTensorTypeAndShapeInfo;
struct OrtTypeInfo;
struct OrtValue;
enum OrtLoggingLevel { ORT_LOGGING_LEVEL_WARNING = 2 };
enum ONNXTensorElementDataType { ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1 };

using Blank = void (*)();
template <typename... Arguments>
using Call = OrtStatus* (*)(Arguments...);

struct OrtApi {
  Blank blank_0[2];
  const char* (*GetErrorMessage)(const OrtStatus*);                                          // 2
  Call<OrtLoggingLevel, const char*, OrtEnv**> CreateEnv;                                    // 3
  Blank blank_4[3];
  Call<const OrtEnv*, const char*, const OrtSessionOptions*, OrtSession**> CreateSession;    // 7
  Blank blank_8[1];
  Call<OrtSession*, const OrtRunOptions*, const char* const*, const OrtValue* const*, size_t, const char* const*, size_t,
       OrtValue**>
      Run;                                                                                   // 9
  Call<OrtSessionOptions**> CreateSessionOptions;                                            // 10
  Blank blank_11[19];
  Call<const OrtSession*, size_t*> SessionGetInputCount;                                     // 30
  Blank blank_31[2];
  Call<const OrtSession*, size_t, OrtTypeInfo**> SessionGetInputTypeInfo;                    // 33
  Blank blank_34[2];
  Call<const OrtSession*, size_t, OrtAllocator*, char**> SessionGetInputName;                // 36
  Blank blank_37[11];
  Call<OrtAllocator*, const int64_t*, size_t, ONNXTensorElementDataType, OrtValue**> CreateTensorAsOrtValue;  // 48
  Blank blank_49[2];
  Call<OrtValue*, void**> GetTensorMutableData;                                              // 51
  Blank blank_52[3];
  Call<const OrtTypeInfo*, const OrtTensorTypeAndShapeInfo**> CastTypeInfoToTensorInfo;      // 55
  Blank blank_56[4];
  Call<const OrtTensorTypeAndShapeInfo*, ONNXTensorElementDataType*> GetTensorElementType;   // 60
  Call<const OrtTensorTypeAndShapeInfo*, size_t*> GetDimensionsCount;                        // 61
  Call<const OrtTensorTypeAndShapeInfo*, int64_t*, size_t> GetDimensions;                    // 62
  Blank blank_63[1];
  Call<const OrtTensorTypeAndShapeInfo*, size_t*> GetTensorShapeElementCount;                // 64
  Call<const OrtValue*, OrtTensorTypeAndShapeInfo**> GetTensorTypeAndShape;                  // 65
  Blank blank_66[12];
  Call<OrtAllocator**> GetAllocatorWithDefaultOptions;                                       // 78
  Blank blank_79[17];
  void (*ReleaseValue)(OrtValue*);                                                           // 96
};

struct OrtApiBase {
  const OrtApi* (*GetApi)(uint32_t version);
  const char* (*GetVersionString)();
};

extern "C" const OrtApiBase* OrtGetApiBase();
