// Why a record is in doubt or released, and what to do, in Chinese: key|text, as in zh.js.
export default `
cause.crash|进程崩溃
cause.crash.why|执行操作的进程在保存结果之前崩溃，或与存储断开。它的租约已经结束。
cause.crash.do|到操作本该留下结果的地方核实：服务的数据库，或支付渠道。然后处理。
cause.timeout|超时
cause.timeout.why|没有按时收到完整的响应。服务可能后来才完成。
cause.timeout.do|等到服务确定结束了这个请求，核实是否生效，然后处理。
cause.reset|连接中断
cause.reset.why|请求发出之后，与服务的连接中断了。
cause.reset.do|在服务的数据库或日志里核实是否生效，然后处理。如果同时有很多条：服务重启或崩溃过。
cause.truncated|响应不完整
cause.truncated.why|服务开始响应，但没有发完。操作很可能已经完成。
cause.truncated.do|核实是否生效。如果已生效，处理为“已完成”并给出响应。
cause.garbage|响应无效
cause.garbage.why|服务发来的不是有效的响应。
cause.garbage.do|核实是否生效并处理，再把这个响应告知服务的维护者：这种情况还会发生。
cause.not-sent|未发出
cause.not-sent.why|请求没有发给服务。
cause.not-sent.do|什么都没有做：如果仍然存疑，处理为“未执行”。
cause.panic|panic
cause.panic.why|程序执行到一半时发生 panic。
cause.panic.do|在服务的日志里找到这个 panic，看执行到了哪一步。核实是否生效，然后处理。先修复缺陷，再让它执行。
cause.bound|执行过久
cause.bound.why|执行时间超过了上限，或失去了租约，已要求它停止。
cause.bound.do|确认它已经停止，核实是否生效，然后处理。如果经常发生，请调高上限。
cause.error|错误
cause.error.why|操作返回了错误，但错误没有说明是否已经生效。
cause.error.do|查看错误（在隐藏内容里），核实是否生效，然后处理。如果这类错误确定无害，请在程序里标记。
cause.marked-in-part|错误只有一部分带标记
cause.marked-in-part.why|多个错误合在一起，只有一部分说明了是否生效。
cause.marked-in-part.do|核实是否生效，然后处理。在程序里标记最外层的错误。
cause.steps-changed|步骤已改变
cause.steps-changed.why|新版本程序的步骤与当初开始的那次执行不同。
cause.steps-changed.do|在下面查看哪些步骤已完成。手工完成或撤销其余步骤后处理，或者运行旧版本直到它执行完。
cause.input|输入无法读取
cause.input.why|这个版本的程序无法读取保存的输入。
cause.input.do|核实是否生效，然后处理；或者运行写入它的那个版本。
cause.attempts|执行次数过多
cause.attempts.why|worker 已用完允许的执行次数，操作始终没有结束。
cause.attempts.do|查明它为什么不结束（隐藏内容里有最后的错误）。核实每次执行是否生效，然后处理。
cause.unattended|未执行
cause.unanswered|已归还
cause.nothing-done|未执行
cause.resolved|由人处理
cause.resolved.why|有人看过，仍让它保持存疑。
cause.resolved.do|审计日志里有处理人和理由。核实是否生效，然后处理。
cause.moved|已迁移
cause.other.why|这个原因由程序自己命名。
cause.other.do|到操作本该留下结果的地方核实，然后处理。
`;
