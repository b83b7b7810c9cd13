// Why a record is in doubt or released, and what to do, in English: key|text, as in en.js.
export default `
cause.crash|process died
cause.crash.why|The process that ran the work died, or was cut off from the store, before it stored an outcome. Its lease has ended.
cause.crash.do|Look for the effect where the work would have left it: in the service's database, or at the payment provider. Then resolve.
cause.timeout|timeout
cause.timeout.why|No whole answer came in time. The service may have finished later.
cause.timeout.do|Wait until the service has certainly ended the request, look for the effect, then resolve.
cause.reset|connection broke
cause.reset.why|The connection to the service broke after the request was sent.
cause.reset.do|Look in the service's database or log for the effect, then resolve. Many at one time: the service was restarted or has crashed.
cause.truncated|answer cut off
cause.truncated.why|The service began its answer and did not end it. It had probably done the work.
cause.truncated.do|Look for the effect. If it is there, resolve as done with the answer.
cause.garbage|invalid answer
cause.garbage.why|The service sent something that is no valid answer.
cause.garbage.do|Look for the effect and resolve, and report the answer to the operator of the service: it will happen again.
cause.not-sent|not sent
cause.not-sent.why|The request was not sent to the service.
cause.not-sent.do|Nothing was done: resolve as not done if it is still in doubt.
cause.panic|panic
cause.panic.why|The program panicked in the middle of the work.
cause.panic.do|Find the panic in the service's log: it says how far the work came. Look for the effect, then resolve. Fix the bug before you let it run again.
cause.bound|ran too long
cause.bound.why|The work ran longer than it may, or lost its lease, and was told to stop.
cause.bound.do|Make sure that it has stopped, look for the effect, then resolve. If it happens often, raise the bound.
cause.error|error
cause.error.why|The work returned an error that does not say whether anything was done.
cause.error.do|Read the error (reveal), look for the effect, then resolve. If such errors are certainly harmless, mark them so in the program.
cause.marked-in-part|error marked in part
cause.marked-in-part.why|Several errors were joined, and only some of them say whether anything was done.
cause.marked-in-part.do|Look for the effect, then resolve. In the program, mark the outermost error.
cause.steps-changed|steps changed
cause.steps-changed.why|A new version of the program has other steps than the attempt that began the work.
cause.steps-changed.do|See below which steps are done. Finish or undo the rest by hand and resolve, or run the old version until it has finished.
cause.input|input unreadable
cause.input.why|The input that was kept cannot be read by this version of the program.
cause.input.do|Look for the effect, then resolve; or run the version that wrote it.
cause.attempts|too many attempts
cause.attempts.why|A worker tried as often as it may, and the work never ended.
cause.attempts.do|Find out why it does not end (reveal shows the last error). Look for effects of all attempts, then resolve.
cause.unattended|nothing done
cause.unanswered|given back
cause.nothing-done|nothing done
cause.resolved|resolved by a person
cause.resolved.why|A person looked at it and left it in doubt.
cause.resolved.do|The audit log says who and why. Look for the effect, then resolve.
cause.moved|moved
cause.other.why|The program named this cause itself.
cause.other.do|Look for the effect where the work would have left it, then resolve.
`;
