export TPU_NAME=your_tpu_name
export PROJECT=your_project_name
export ZONE=your_project_zone
export TPU_SIZE=v3-128

export BUCKET=gs://your_bucket/
export CACHE_DIR="${BUCKET}/your_cache_dir"
export MODEL_DIR="${BUCKET}/your_model_dir"

export EVAL_MIXTURE_NAME="t0_eval_score_eval"
export TRAIN_STEPS=1112200

t5_mesh_transformer \
    --tpu="${TPU_NAME}" \
    --gcp_project="${PROJECT}" \
    --tpu_zone="${ZONE}" \
    --model_dir="${MODEL_DIR}" \
    --gin_file="${MODEL_DIR}/operative_config.gin" \
    --additional_task_cache_dirs="${CACHE_DIR}" \
    --module_import="t0.seqio_tasks" \
    --gin_file="score_eval.gin" \
    --gin_param="MIXTURE_NAME = '${EVAL_MIXTURE_NAME}'" \
    --gin_param="utils.tpu_mesh_shape.tpu_topology = '${TPU_SIZE}'" \
    --gin_param="run.batch_size = ('tokens_per_batch', 262144)" \
    --gin_param="pack_dataset.use_custom_ops = False" \
    --gin_param="run.sequence_length = {'inputs': 1024, 'targets': 256}" \
    --gin_param="model_info = '${MODEL_DIR}/model-info.txt'" \
    --gin_param="mesh_train_dataset_fn.use_cached = True" \
    --gin_param="mesh_eval_dataset_fn.use_cached = True" \
    --gin_param="serialize_num_microbatches.tokens_per_microbatch_per_replica = 2048" \
    --gin_param="tpu_mesh_shape.model_parallelism = 4" \
    --gin_param="eval_checkpoint_step = ${TRAIN_STEPS}" \
    --gin_param="run.dataset_split = 'validation'"
