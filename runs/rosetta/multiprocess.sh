#!/usr/bin/env bash
# One process of a run of T5X's recipes for GPUs, as srun starts it for each GPU. Its options are the environment variables of
# T5X's multiprocess_pretrain_pile.sh and, with FT_TASK, of multiprocess_ft_frompile.sh.
set -euo pipefail

: "${T5X_WORKSPACE_DIR:?the folder of MODEL_DIR}" "${TFDS_DATA_DIR:?the folder of the data sets}"
ENABLE_FP8=${ENABLE_FP8:-1}
PREC=${PREC:-bfloat16}
[[ $ENABLE_FP8 == 1 ]] && PREC=bfloat16
MODEL_DIR=$T5X_WORKSPACE_DIR/${MODEL_DIR:-model_dir}

# SLURM writes 8(x2) for two hosts of eight tasks.
tasks=${SLURM_STEP_TASKS_PER_NODE:-}
if [[ $tasks == *,* ]]; then
  echo "SLURM_STEP_TASKS_PER_NODE is $tasks, expected the same number on every host: run srun with --ntasks-per-node" >&2
  exit 1
fi
gpus_per_node=${tasks:-${GPUS_PER_NODE:-8}}
gpus_per_node=${gpus_per_node%%(*}
export CUDA_VISIBLE_DEVICES=$(seq -s, 0 $((gpus_per_node - 1)))
export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}

batch_size=$((${BSIZE_PER_GPU:-32} * ${NUM_PROCESSES:-${SLURM_STEP_NUM_TASKS:?processes}} / ${TP_SIZE:-1}))
examples=t5x/contrib/gpu/t5/t5_1_1/examples/${T5_SIZE:-large}
if [[ -n ${FT_TASK:-} ]]; then
  args=("--gin_file=${examples}_${FT_TASK}_finetune_adam.gin")
else
  args=("--gin_file=${examples}_pile_pretrain.gin" "--gin.TRAIN_STEPS=${TRAIN_STEPS:-1000000}")
fi
# Without these, lengths are those of the gin file; T5X's script gives 512 and 128 to every task.
if [[ -n ${ENC_SL:-}${DEC_SL:-} ]]; then
  args+=("--gin.TASK_FEATURE_LENGTHS={'inputs': ${ENC_SL:-512}, 'targets': ${DEC_SL:-128}}")
fi
[[ ${CHECKPOINT_DISABLE:-0} == 1 ]] && args+=("--gin.utils.CheckpointConfig.save=None")
[[ ${WITH_MP:-1} == 1 ]] && args+=("--multiprocess_gpu")
stats_period=1000
[[ ${BENCHMARK_MODE:-} == True ]] && stats_period=100

# ADDITIONAL_CLI_ARGS is a list of words.
# shellcheck disable=SC2086
exec ${GIMLET:-gimlet train} "${args[@]}" \
  --gin.MODEL_DIR="'$MODEL_DIR'" \
  --gin.BATCH_SIZE="$batch_size" \
  --gin.network.T5Config.dtype="'$PREC'" \
  --gin.partitioning.PjitPartitioner.num_partitions="${TP_SIZE:-1}" \
  --gin.trainer.Trainer.num_microbatches="${NUM_MICROBATCHES:-1}" \
  --gin.train/utils.DatasetConfig.pack="${PACK:-0}" \
  --gin.train_eval/utils.DatasetConfig.pack="${PACK:-0}" \
  --tfds_data_dir="$TFDS_DATA_DIR" \
  --gin.train.stats_period="$stats_period" \
  --gin.train.eval_period=1000 \
  --gin.train.te_config_cls=@te_helper.TransformerEngineConfig \
  --gin.te_helper.TransformerEngineConfig.enable_fp8="$ENABLE_FP8" \
  --gin.te_helper.TransformerEngineConfig.fp8_format="'hybrid'" \
  --gin.network.T5Config.transpose_batch_sequence="${TRANSPOSE_BS:-1}" \
  --gin.network.T5Config.fuse_qkv_params="${FUSE_QKV:-1}" \
  ${ADDITIONAL_CLI_ARGS:-}
