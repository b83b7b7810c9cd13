package cli

// chineseCobra translates the texts of the commands and flags that cobra adds.
var chineseCobra = map[string]string{
	"Help about any command": "显示任何命令的帮助",
	`Help provides help for any command in the application.
Simply type retrysafe help [path to command] for full details.`: "help 显示任何命令的帮助。完整的说明用 retrysafe help [path to command] 查看。",
	"help for COMMAND":      "COMMAND 的帮助",
	"version for retrysafe": "显示 retrysafe 的版本",

	"Generate the autocompletion script for the specified shell": "生成某种 shell 的命令补全脚本",
	`Generate the autocompletion script for retrysafe for the specified shell.
See each sub-command's help for details on how to use the generated script.`: `为某种 shell 生成 retrysafe 的命令补全脚本。
脚本的用法见各个子命令的帮助。`,
	"Generate the autocompletion script for bash":            "生成 bash 的命令补全脚本",
	"Generate the autocompletion script for zsh":             "生成 zsh 的命令补全脚本",
	"Generate the autocompletion script for fish":            "生成 fish 的命令补全脚本",
	"Generate the autocompletion script for powershell":      "生成 powershell 的命令补全脚本",
	"Generate the autocompletion script for the bash shell.": "生成 bash 的命令补全脚本。",
	"Generate the autocompletion script for the zsh shell.":  "生成 zsh 的命令补全脚本。",
	"Generate the autocompletion script for the fish shell.": "生成 fish 的命令补全脚本。",
	"Generate the autocompletion script for powershell.":     "生成 powershell 的命令补全脚本。",
	`This script depends on the 'bash-completion' package.
If it is not installed already, you can install it via your OS's package manager.`: `这个脚本需要软件包 'bash-completion'。
如果还没有安装，可以用操作系统的软件包管理器安装。`,
	`If shell completion is not already enabled in your environment you will need
to enable it.  You can execute the following once:`: "如果你的环境还没有启用命令补全，需要先启用。执行一次：",
	"To load completions in your current shell session:":       "在当前的 shell 里加载补全：",
	"To load completions for every new session, execute once:": "让每个新的 shell 都加载补全，执行一次：",
	`To load completions for every new session, add the output of the above command
to your powershell profile.`: "让每个新的 shell 都加载补全，把上面命令的输出加入 powershell 的 profile。",
	"You will need to start a new shell for this setup to take effect.": "启动新的 shell 之后才会生效。",
	"disable completion descriptions":                                   "补全时不显示说明",
}

// chineseUsage translates the words that cobra and pflag put around the texts.
var chineseUsage = map[string]string{
	"Usage:":                  "用法：",
	"Aliases:":                "别名：",
	"Examples:":               "例子：",
	"Available Commands:":     "命令：",
	"Additional Commands:":    "其他命令：",
	"Flags:":                  "命令行选项：",
	"Global Flags:":           "上级命令的命令行选项：",
	"Additional help topics:": "其他帮助主题：",
	`Use "`:                   `用 "`,
	`" for more information about a command.`: `" 查看各个命令的说明。`,
	"(default ": "(默认 ",
}
