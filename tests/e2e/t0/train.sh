export TPU_NAME=your_tpu_name
export PROJECT=your_project_name
export ZONE=your_project_zone
export TPU_SIZE=v3-512

export BUCKET=gs://your_bucket/
export CACHE_DIR="${BUCKET}/your_cache_dir"
export MODEL_DIR="${BUCKET}/your_model_dir"

export MIXTURE_NAME="t0++_train"
export TRAIN_STEPS=1112200

t5_mesh_transformer \
    --tpu="${TPU_NAME}" \
    --gcp_project="${PROJECT}" \
    --tpu_zone="${ZONE}" \
    --model_dir="${MODEL_DIR}"\
    --additional_task_cache_dirs="${CACHE_DIR}" \
    --module_import="t0.seqio_tasks" \
    --gin_file="dataset.gin" \
    --gin_param="MIXTURE_NAME = '${MIXTURE_NAME}'" \
    --gin_file="gs://t5-data/pretrained_models/t5.1.1.lm100k.xxl/operative_config.gin" \
    --gin_param="utils.tpu_mesh_shape.tpu_topology = '${TPU_SIZE}'" \
    --gin_param="run.train_steps = ${TRAIN_STEPS}" \
    --gin_file="learning_rate_schedules/constant_0_001.gin" \
    --gin_param="tokens_per_batch=1048576" \
    --gin_param="pack_dataset.use_custom_ops = False" \
    --gin_param="run.sequence_length = {'inputs': 1024, 'targets': 256}" \
    --gin_param="model_info = '${MODEL_DIR}/model-info.txt'" \
    --gin_param="mesh_train_dataset_fn.use_cached = True" \
    --gin_param="serialize_num_microbatches.tokens_per_microbatch_per_replica = 2048" \
    --gin_param="tpu_mesh_shape.model_parallelism = 8"
