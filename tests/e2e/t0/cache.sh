TASK=$1
seqio_cache_tasks \
   --tasks=$TASK \
   --output_cache_dir=$MY_FAVORITE_OUTPUT_DIR \
   --module_import=t0.seqio_tasks
