# bash completion for mqctl, made by `mqctl completion bash`
_mqctl() {
    local IFS=$'\n'
    COMPREPLY=($(_MQCTL_SHELL=bash _MQCTL_LINE="${COMP_LINE:0:COMP_POINT}" "$1" 2>/dev/null))
}
complete -o default -F _mqctl mqctl
