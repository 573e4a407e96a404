# fish completion for mqctl, made by `mqctl completion fish`
function __mqctl_complete
    set -l found (env _MQCTL_SHELL=fish _MQCTL_LINE=(commandline -cp | string collect) mqctl 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c mqctl -f -a '(__mqctl_complete)'
