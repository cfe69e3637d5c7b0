// Runs cases one by one, each in a process of its own, and says which of them hold.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

struct Case {
    const char* name;
    void (*run)();
};

inline std::vector<Case>& cases() {
    static std::vector<Case> all;
    return all;
}

struct Add {
    Add(const char* name, void (*run)()) { cases().push_back({name, run}); }
};

#define CASE(name)                       \
    static void name();                  \
    static const Add add_##name(#name, name); \
    static void name()

inline void fail(const char* what, long code, int line) {
    std::ostringstream text;
    text << what << " answers " << code << " (line " << line << ")";
    throw std::runtime_error(text.str());
}

// A call that answers 0, and a condition that holds.
#define OK(call)                                              \
    do {                                                      \
        long code = static_cast<long>(call);                  \
        if (code != 0) fail(#call, code, __LINE__);           \
    } while (0)
#define HOLDS(condition)                                      \
    do {                                                      \
        if (!(condition)) fail(#condition, 0, __LINE__);      \
    } while (0)

inline std::string run_one(const Case& one) {
    int ends[2];
    if (pipe(ends) != 0) return "no pipe";
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        std::string problem;
        try {
            one.run();
        } catch (const std::exception& error) {
            problem = error.what();
        }
        ssize_t written = write(ends[1], problem.data(), problem.size());
        _exit(problem.empty() && written == 0 ? 0 : 1);
    }
    close(ends[1]);
    std::string problem;
    char buffer[512];
    for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) problem.append(buffer, got);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
    return problem;
}

// Prints `ok NAME` or `failed NAME: WHY` for each case.
inline int run_all() {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    for (const Case& one : cases()) {
        std::string problem = run_one(one);
        if (problem.empty())
            printf("ok %s\n", one.name);
        else
            printf("failed %s: %s\n", one.name, problem.c_str());
    }
    return 0;
}

// The kernels of the cases: PTX that the project compiled itself, at a path from the environment.
inline const std::string& kernels() {
    static const std::string text = [] {
        const char* path = getenv("GRAPTURE_KERNELS");
        std::ifstream file(path ? path : "");
        std::stringstream all;
        all << file.rdbuf();
        return all.str();
    }();
    return text;
}
