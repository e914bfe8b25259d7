//! Operations with a backward pass in Rust, hooks on gradients, and the state of random numbers:
//! the Rust side of `bridge/autograd.cpp`.

use std::any::Any;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use tch::Tensor;

/// A tensor of libtorch's, behind tch's pointer.
pub(crate) type RawTensor = *mut c_void;

/// The beginning of the panic message that tch makes of a failure of libtorch's; the rest has the
/// format of `Debug`.
pub const TCH_PANIC: &str = "called `Result::unwrap()` on an `Err` value: Torch(\"";

/// Reads some tensors and makes others.
type Callback = dyn FnMut(Vec<Tensor>) -> Vec<Tensor> + Send;

#[repr(C)]
struct RawClosure {
    data: *mut c_void,
    call: unsafe extern "C" fn(
        *mut c_void,
        *const RawTensor,
        usize,
        *const RawTensor,
        usize,
    ) -> *mut c_char,
    drop: unsafe extern "C" fn(*mut c_void),
}

unsafe extern "C" {
    fn gimlet_set_backward(
        inputs: *const RawTensor,
        num_inputs: usize,
        outputs: *const RawTensor,
        num_outputs: usize,
        backward: RawClosure,
    ) -> *mut c_char;
    fn gimlet_set_gradient_hook(leaf: RawTensor, hook: RawClosure) -> *mut c_char;
    fn gimlet_clear_gradient_hook(leaf: RawTensor) -> *mut c_char;
    fn gimlet_take_gradient(leaf: RawTensor, taken: RawTensor);
    fn gimlet_add_gradient(leaf: RawTensor, gradient: RawTensor) -> *mut c_char;
    fn gimlet_version(tensor: RawTensor) -> i64;
    fn gimlet_gradients(
        outputs: *const RawTensor,
        output_gradients: *const RawTensor,
        num_outputs: usize,
        inputs: *const RawTensor,
        results: *const RawTensor,
        num_inputs: usize,
    ) -> *mut c_char;
    safe fn gimlet_records_gradients() -> bool;
    fn gimlet_assign(target: RawTensor, source: RawTensor);
    fn gimlet_random_state(on_device: RawTensor, state: RawTensor) -> *mut c_char;
    fn gimlet_set_random_state(on_device: RawTensor, state: RawTensor) -> *mut c_char;
}

/// Makes `outputs` results of `inputs` whose gradients `backward` computes: from those of the
/// outputs (zeros for outputs that nothing uses) to those of the inputs in order, with undefined
/// tensors (`Tensor::new`) for inputs that need none. Compute the outputs under `tch::no_grad`;
/// none may be a view, and `backward` may hold them only detached. If no gradient is needed,
/// `backward` is dropped at once.
///
/// `backward` runs once, without recording, on a thread of libtorch's for GPUs. Its panics appear
/// in the call that requested gradients.
pub fn custom_function(
    inputs: &[&Tensor],
    outputs: Vec<Tensor>,
    backward: impl FnOnce(Vec<Tensor>) -> Vec<Tensor> + Send + 'static,
) -> Vec<Tensor> {
    let mut backward = Some(backward);
    let once = move |gradients| backward.take().expect("the bridge calls it once")(gradients);
    let (from, to) = (raw_tensors(inputs.iter().copied()), raw_tensors(&outputs));
    // SAFETY: the tensors outlive the call, and the bridge takes the closure.
    check(unsafe {
        gimlet_set_backward(from.as_ptr(), from.len(), to.as_ptr(), to.len(), raw_closure(once))
    });
    outputs
}

/// Calls `hook` with `leaf` each time a backward pass has added to its `grad`, so that the gradient
/// can be consumed and freed before others are computed. Replaces an earlier hook.
pub fn on_gradient(leaf: &Tensor, mut hook: impl FnMut(&Tensor) + Send + 'static) {
    let call = move |tensors: Vec<Tensor>| {
        hook(&tensors[0]);
        Vec::new()
    };
    // SAFETY: the leaf outlives the call, and the bridge takes the closure.
    check(unsafe { gimlet_set_gradient_hook(raw(leaf), raw_closure(call)) });
}

/// Removes the hook of [`on_gradient`].
pub fn no_hook_on_gradient(leaf: &Tensor) {
    // SAFETY: the leaf outlives the call.
    check(unsafe { gimlet_clear_gradient_hook(raw(leaf)) });
}

/// Removes and returns the leaf's `grad`; undefined if it had none.
pub fn take_gradient(leaf: &Tensor) -> Tensor {
    let taken = Tensor::new();
    // SAFETY: both tensors outlive the call.
    unsafe { gimlet_take_gradient(raw(leaf), raw(&taken)) };
    taken
}

/// Adds `gradient`, of any format, to the leaf's `grad`.
pub fn add_gradient(leaf: &Tensor, gradient: &Tensor) {
    // SAFETY: both tensors outlive the call.
    check(unsafe { gimlet_add_gradient(raw(leaf), raw(gradient)) });
}

/// Returns the number of changes in place of the tensor's memory, as far as libtorch knows.
pub fn version(tensor: &Tensor) -> i64 {
    // SAFETY: the tensor outlives the call.
    unsafe { gimlet_version(raw(tensor)) }
}

/// Returns gradients of `inputs`, each of which must require one, from those of `outputs`;
/// undefined if no output depends on an input. Unlike `backward` it adds nothing to any leaf. Frees
/// the graph. May be called inside a backward pass.
pub fn gradients_of(
    outputs: &[Tensor],
    output_gradients: &[Tensor],
    inputs: &[&Tensor],
) -> Vec<Tensor> {
    assert_eq!(outputs.len(), output_gradients.len(), "a gradient for each output");
    let results: Vec<Tensor> = inputs.iter().map(|_| Tensor::new()).collect();
    let (from, given) = (raw_tensors(outputs), raw_tensors(output_gradients));
    let (to, written) = (raw_tensors(inputs.iter().copied()), raw_tensors(&results));
    // SAFETY: all tensors outlive the call, and the lengths are those of the vectors.
    check(unsafe {
        gimlet_gradients(
            from.as_ptr(),
            given.as_ptr(),
            from.len(),
            to.as_ptr(),
            written.as_ptr(),
            to.len(),
        )
    });
    results
}

/// Whether operations of this thread are recorded for a backward pass; false under `tch::no_grad`.
pub fn records_gradients() -> bool {
    gimlet_records_gradients()
}

/// Returns the state of the random numbers of the device of `on_device`. uint8, on the CPU
pub fn random_state(on_device: &Tensor) -> Tensor {
    let state = Tensor::new();
    // SAFETY: both tensors outlive the call.
    check(unsafe { gimlet_random_state(raw(on_device), raw(&state)) });
    state
}

/// Restores the random numbers of the device of `on_device` to a state of [`random_state`].
pub fn set_random_state(on_device: &Tensor, state: &Tensor) {
    // SAFETY: both tensors outlive the call.
    check(unsafe { gimlet_set_random_state(raw(on_device), raw(state)) });
}

pub(crate) fn raw(tensor: &Tensor) -> RawTensor {
    tensor.as_ptr().cast_mut().cast()
}

pub(super) fn raw_tensors<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Vec<RawTensor> {
    tensors.into_iter().map(raw).collect()
}

fn raw_closure(call: impl FnMut(Vec<Tensor>) -> Vec<Tensor> + Send + 'static) -> RawClosure {
    // Boxed twice, because a pointer to a trait object is too wide for the C interface.
    let boxed: Box<Box<Callback>> = Box::new(Box::new(call));
    RawClosure { data: Box::into_raw(boxed).cast(), call: call_closure, drop: drop_closure }
}

/// # Safety
/// `data` comes from `raw_closure`; the tensors are `count` to read and `num_results` to write.
unsafe extern "C" fn call_closure(
    data: *mut c_void,
    tensors: *const RawTensor,
    count: usize,
    results: *const RawTensor,
    num_results: usize,
) -> *mut c_char {
    let called = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: as the caller promises.
        let (closure, tensors, results) = unsafe {
            let closure = &mut *data.cast::<Box<Callback>>();
            (closure, pointers(tensors, count), pointers(results, num_results))
        };
        // SAFETY: each pointer is a live tensor of libtorch's, which this makes a second handle of.
        let read = tensors.iter().map(|&tensor| unsafe { Tensor::clone_from_ptr(tensor.cast()) });
        let found = closure(read.collect());
        assert_eq!(found.len(), num_results, "a gradient for each input");
        for (&result, tensor) in results.iter().zip(&found) {
            // SAFETY: both are live tensors.
            unsafe { gimlet_assign(result, raw(tensor)) };
        }
    }));
    match called {
        Ok(()) => std::ptr::null_mut(),
        Err(panic) => copied(&panic_message(panic.as_ref())),
    }
}

/// # Safety
/// `data` comes from `raw_closure` and is not used again.
unsafe extern "C" fn drop_closure(data: *mut c_void) {
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(data.cast::<Box<Callback>>()) });
}

/// # Safety
/// `first` points to `count` pointers that outlive the result, or `count` is 0.
unsafe fn pointers<'a>(first: *const RawTensor, count: usize) -> &'a [RawTensor] {
    // SAFETY: as the caller promises; an empty vector's pointer may be null.
    if count == 0 { &[] } else { unsafe { slice::from_raw_parts(first, count) } }
}

/// Returns the text of a panic; for tch's panics, the text of libtorch in it.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic".to_string());
    let Some(quoted) = text.strip_prefix(TCH_PANIC) else { return text };
    quoted.trim_end_matches("\")").replace("\\n", "\n").replace("\\\"", "\"")
}

/// Copies a message to a C string that the bridge frees.
fn copied(message: &str) -> *mut c_char {
    let message = CString::new(message.replace('\0', " ")).expect("zeros were replaced");
    // SAFETY: `strdup` copies a C string.
    unsafe { libc::strdup(message.as_ptr()) }
}

/// Panics with libtorch's message, as tch's own operations do.
#[track_caller]
pub(super) fn check(message: *mut c_char) {
    if message.is_null() {
        return;
    }
    panic!("{TCH_PANIC}{}\")", taken(message).escape_debug());
}

/// Returns the text of a message of the bridge's, and frees the message.
pub(crate) fn taken(message: *mut c_char) -> String {
    // SAFETY: a C string made by `strdup`, which Rust must free.
    unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        libc::free(message.cast());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tch::{Device, Kind};

    fn leaf(values: &[f32]) -> Tensor {
        Tensor::from_slice(values).set_requires_grad(true)
    }

    /// `x * y` with a gradient three times too large, so that the test sees which one was used.
    fn tripled_product(x: &Tensor, y: &Tensor) -> Tensor {
        let product = tch::no_grad(|| x * y);
        let (kept_x, kept_y) = (x.detach(), y.detach());
        let backward = move |gradients: Vec<Tensor>| {
            let gradient: Tensor = &gradients[0] * 3.0;
            vec![&gradient * kept_y, gradient * kept_x]
        };
        custom_function(&[x, y], vec![product], backward).remove(0)
    }

    #[test]
    fn gradients_are_those_of_the_closure_and_flow_on() {
        let (x, y) = (leaf(&[2.0, 3.0]), leaf(&[5.0, 7.0]));
        let loss = tripled_product(&(&x * 2.0), &y).sum(Kind::Float);
        loss.backward();
        assert_eq!(loss.double_value(&[]), 62.0);
        assert_eq!(x.grad(), Tensor::from_slice(&[30f32, 42.0]));
        assert_eq!(y.grad(), Tensor::from_slice(&[12f32, 18.0]));
    }

    #[test]
    fn an_output_that_nothing_depends_on_counts_as_zero() {
        let x = leaf(&[1.0, 2.0]);
        let outputs = tch::no_grad(|| vec![&x * 1.0, &x * 1.0]);
        let sum = |gradients: Vec<Tensor>| vec![&gradients[0] + &gradients[1]];
        let outputs = custom_function(&[&x], outputs, sum);
        outputs[1].sum(Kind::Float).backward();
        assert_eq!(x.grad(), Tensor::from_slice(&[1f32, 1.0]));
    }

    #[test]
    fn closures_are_dropped_with_the_graph_and_at_once_without_one() {
        let held = Arc::new(());
        let run = |x: &Tensor| {
            let inner = Arc::clone(&held);
            let output = tch::no_grad(|| x * 1.0);
            let backward = move |gradients: Vec<Tensor>| {
                let _inner = &inner;
                gradients
            };
            custom_function(&[x], vec![output], backward).remove(0)
        };
        let x = leaf(&[1.0]);
        let output = run(&x);
        assert_eq!(Arc::strong_count(&held), 2);
        output.sum(Kind::Float).backward();
        assert_eq!(Arc::strong_count(&held), 1);
        drop(tch::no_grad(|| run(&x)));
        drop(run(&x.detach()));
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn a_panic_in_a_closure_comes_out_of_the_backward_pass() {
        let x = leaf(&[1.0]);
        let output = tch::no_grad(|| &x * 1.0);
        let output = custom_function(&[&x], vec![output], |_| panic!("no gradient of this"));
        let failed = output[0].sum(Kind::Float).f_backward().expect_err("the closure panics");
        assert!(failed.to_string().contains("no gradient of this"), "{failed}");
    }

    #[test]
    fn a_failure_of_libtorch_in_a_closure_is_told_in_its_own_words() {
        let x = leaf(&[1.0]);
        on_gradient(&x, |_| {
            let _ = Tensor::empty([1 << 50], (Kind::Float, Device::Cpu));
        });
        let failed = (&x * 2.0).sum(Kind::Float).f_backward().expect_err("there is no such memory");
        let message = failed.to_string();
        assert!(message.contains("can't allocate memory"), "{message}");
        assert!(!message.contains("unwrap"), "{message}");
    }

    #[test]
    fn a_hook_sees_every_gradient_and_may_use_it_up() {
        let (x, count) = (leaf(&[3.0]), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::clone(&count);
        on_gradient(&x, move |leaf| {
            seen.fetch_add(leaf.grad().double_value(&[0]) as usize, Ordering::SeqCst);
            let _ = leaf.grad().zero_();
        });
        (&x * &x).sum(Kind::Float).backward();
        (&x * 2.0).sum(Kind::Float).backward();
        assert_eq!(count.load(Ordering::SeqCst), 6 + 2);
    }

    #[test]
    fn a_gradient_is_taken_once_and_a_hook_that_was_taken_away_is_not_called() {
        let x = leaf(&[3.0]);
        on_gradient(&x, |_| panic!("it was taken away"));
        no_hook_on_gradient(&x);
        (&x * &x).sum(Kind::Float).backward();
        assert_eq!(take_gradient(&x), Tensor::from_slice(&[6f32]));
        assert!(!take_gradient(&x).defined());
    }

    #[test]
    fn gradients_of_another_format_add_up() {
        let x = leaf(&[3.0, 4.0]);
        let narrow = Tensor::from_slice(&[1f32, 2.0]).to_kind(Kind::BFloat16);
        add_gradient(&x, &narrow);
        add_gradient(&x, &(&narrow * 0.5));
        let sum = take_gradient(&x);
        assert_eq!((sum.kind(), sum), (Kind::Float, Tensor::from_slice(&[1.5f32, 3.0])));
    }

    #[test]
    fn a_change_in_place_is_seen_at_every_handle() {
        let x = Tensor::from_slice(&[1f32, 2.0]);
        let (handle, before) = (x.detach(), version(&x));
        let _ = handle.narrow(0, 0, 1).g_add_scalar_(1.0);
        assert_ne!(version(&x), before);
        let before = version(&x);
        let _ = (&x + 1.0, x.shallow_clone());
        assert_eq!(version(&x), before);
    }

    #[test]
    fn gradients_of_some_inputs_reach_no_leaf() {
        let (x, y, unused) = (leaf(&[2.0, 3.0]), leaf(&[5.0, 7.0]), leaf(&[1.0]));
        let given = Tensor::from_slice(&[1f32, 10.0]);
        let found = gradients_of(&[&x * &y], &[given], &[&x, &unused]);
        assert_eq!(found[0], Tensor::from_slice(&[5f32, 70.0]));
        assert!(!found[1].defined() && !x.grad().defined() && !y.grad().defined());
    }

    #[test]
    fn nothing_is_recorded_under_no_grad() {
        assert!(records_gradients());
        assert!(!tch::no_grad(records_gradients));
    }

    #[test]
    fn random_numbers_go_on_from_a_state_that_was_put_back() {
        let _held = crate::nn::GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let here = Tensor::zeros([1], (Kind::Float, Device::Cpu));
        let state = random_state(&here);
        let draw = || Tensor::rand([20], (Kind::Float, Device::Cpu));
        let first = draw();
        assert_ne!(first, draw());
        set_random_state(&here, &state);
        assert_eq!(first, draw());
    }
}
